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
  HORING_TRY(team_->enter(launch));
  enqueued_ = true;
  return true;
}

Status KernelCalls::settle() {
  if (!std::exchange(enqueued_, false)) return {};
  return team_->await(communicator_.rank(), patience());
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
  HORING_TRY(team_->outcome());
  return true;
}

}  // namespace horing
