#include "comm/kernel_calls.h"

#include <utility>

namespace horing {

namespace {

// What kernels have no tables for, the same on every rank. Premulsum may read a scalar in memory of the host on one rank, and not
// on another.
bool isForKernels(const Command& command) {
  return command.transfers.empty() && command.list.empty() && !command.task && !command.call.uneven &&
         !command.call.block_of_position && command.call.op != RedOp::kPreMulSum;
}

FlightRecord recordOf(const Command& command, int ranks) {
  return {.count = agreedCount(command.collective, command.call, ranks),
          .root = command.call.root,
          .collective = command.collective,
          .type = command.call.type,
          .op = command.call.op};
}

}  // namespace

void KernelCalls::bind(std::shared_ptr<const CudaDevice> device) {
  device_ = device;
  team_->arrive(communicator_.rank(), std::move(device));
}

GpuPatience KernelCalls::patience() {
  return {Deadline::after(clock_, communicator_.options().config.timeout_ms),
          [this] { return communicator_.asyncError(); }};
}

Result<bool> KernelCalls::teamServes() {
  return team_->serves(
      {communicator_.rank(), communicator_.options().config, communicator_.map(), communicator_.log()},
      patience());
}

Result<bool> KernelCalls::enqueue(const Command& command, CudaStream stream) {
  if (!isForKernels(command)) return false;
  HORING_ASSIGN(const bool serves, teamServes());
  if (!serves) return false;
  HORING_TRY(device_->checkStream(stream));
  if (command.call.count == 0) return true;
  const Selection& selection = communicator_.selectionFor(command.collective, command.call);
  HORING_ASSIGN(const GpuTeam::Plans* const plans,
                team_->plans(command.collective, selection, command.call.root));
  if (!plans) return false;
  const cuda::BoundPlan& plan =
      *(*plans)[static_cast<size_t>(communicator_.map().positionOfRank(communicator_.rank()))];
  GpuLaunch launch;
  launch.rank = communicator_.rank();
  HORING_ASSIGN(launch.call, plan.prepare(command.call));
  launch.grid = {plan.lanes(), cuda::BoundPlan::partsOf(launch.call), 1};
  launch.type = command.call.type;
  launch.op = command.call.op;
  launch.stream = stream;
  HORING_ASSIGN(launch.is_recorded, team_->isRecorded(launch.rank, stream));
  HORING_ASSIGN(launch.call.number, watch_.begin(recordOf(command, communicator_.ranks())));
  const Status entered = team_->enter(launch);
  if (!entered.ok()) return watch_.judge(launch.call.number, entered);
  if (launch.is_recorded) watch_.recorded(launch.call.number);
  enqueued_ = launch.call.number;
  return true;
}

Status KernelCalls::settle() {
  const std::optional<uint64_t> launch = std::exchange(enqueued_, std::nullopt);
  if (!launch) return {};
  const Status launched = team_->await(communicator_.rank(), patience());
  return launched.ok() ? launched : watch_.judge(*launch, launched);
}

Result<bool> KernelCalls::run(const Command& command) {
  if (!isForKernels(command)) return false;
  HORING_ASSIGN(const bool serves, teamServes());
  if (!serves) return false;
  HORING_ASSIGN(const CudaStream stream, team_->ownStream(communicator_.rank()));
  HORING_ASSIGN(const bool taken, enqueue(command, stream));
  if (!taken) return false;
  HORING_TRY(settle());
  const GpuPatience patience = this->patience();
  HORING_TRY(device_->synchronize(stream, patience.news, patience.deadline));
  HORING_TRY(watch_.outcome());
  return true;
}

}  // namespace horing
