#include "comm/kernel_calls.h"

#include <span>
#include <utility>

#include "base/outside_of_graphs.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

// The same on every rank. Kernels have no tables for the others.
bool isForKernels(const Command& command) {
  return command.transfers.empty() && command.list.empty() && !command.task && !command.call.uneven &&
         !command.call.block_of_position && !movesNothing(command);
}

size_t bufferBytes(const Command& command, ChunkSet holds, int ranks) {
  return command.call.count * dataTypeBytes(command.call.type) * blocksIn(holds, command.collective, ranks);
}
// Also on ranks that have none, where nobody looks.
std::span<const std::byte> readsOf(const Command& command, int ranks) {
  return {command.call.input, bufferBytes(command, contractOf(command.collective).in, ranks)};
}
std::span<const std::byte> writesOf(const Command& command, int ranks) {
  return {command.call.output, bufferBytes(command, contractOf(command.collective).out, ranks)};
}
std::span<const std::byte> scalarOf(const Command& command) {
  const auto* const at = static_cast<const std::byte*>(command.call.factor_at);
  return {at, at ? dataTypeBytes(command.call.type) : 0};
}

FlightRecord recordOf(const Command& command, int ranks) {
  return {.count = agreedCount(command.collective, command.call, ranks),
          .root = command.call.root,
          .collective = command.collective,
          .type = command.call.type,
          .op = command.call.op};
}

}  // namespace

std::unique_ptr<KernelCalls> KernelCalls::of(Communicator& communicator) {
  const CommunicatorOptions& options = communicator.options();
  std::shared_ptr<GpuTeam> team = options.gpus;
  if (!team && !options.hub && options.config.gpu_path == "auto") {
    // Who is alone has nobody to agree with.
    if (communicator.ranks() == 1) {
      team = std::make_shared<GpuTeam>(1);
    } else if (auto remote = RemoteGpus::of(communicator)) {
      team = std::make_shared<GpuTeam>(communicator.ranks(), std::move(remote));
    }
  }
  return team ? std::make_unique<KernelCalls>(communicator, std::move(team)) : nullptr;
}

void KernelCalls::bind(std::shared_ptr<const CudaDevice> device) {
  device_ = device;
  team_->arrive(communicator_.rank(), std::move(device));
}

GpuPatience KernelCalls::patience() {
  return {Deadline::after(clock_, communicator_.options().config.timeout_ms),
          [this] { return communicator_.asyncError(); }};
}

Result<bool> KernelCalls::teamServes() {
  // For a thread that looks after kernels while nobody calls, and while graphs replay them.
  const auto news = [team = team_.get(), &communicator = communicator_] {
    Status error = communicator.control().status();
    if (!error.ok()) team->abort();
    return error;
  };
  return team_->serves(
      {communicator_.rank(), communicator_.options().config, communicator_.map(), communicator_.log(), news},
      patience());
}

// Ranks of other processes wait here for each other, so all must know by then what this one calls.
Result<const cuda::BoundPlan*> KernelCalls::planFor(const Command& command, uint64_t launch) {
  const Selection& selection = communicator_.selectionFor(command.collective, command.call);
  const auto plans = team_->plans(command.collective, selection, command.call.root);
  // It sticks: they did not wait for the same.
  if (!plans.ok()) return communicator_.breakOff(watch_.judge(launch, plans.status()));
  if (plans.value())
    return (*plans.value())[static_cast<size_t>(communicator_.map().positionOfRank(communicator_.rank()))]
        .get();
  watch_.withdrawn(launch);
  return nullptr;
}

Result<bool> KernelCalls::enter(const Command& command, CudaStream stream) {
  if (!isForKernels(command)) return false;
  HORING_ASSIGN(const bool serves, teamServes());
  if (!serves) return false;
  HORING_TRY(device_->checkStream(stream));
  GpuLaunch launch;
  launch.rank = communicator_.rank();
  HORING_ASSIGN(launch.is_recorded, team_->launches().isRecorded(launch.rank, stream));
  launch.reads = readsOf(command, communicator_.ranks());
  launch.writes = writesOf(command, communicator_.ranks());
  launch.scalar = scalarOf(command);
  launch.is_copied = command.collective == Collective::kAllGather && !launch.is_recorded &&
                     team_->copies(launch.reads.size());
  launch.stream = stream;
  HORING_TRY(team_->launches().checkThread(launch));
  HORING_ASSIGN(const uint64_t number, watch_.begin(recordOf(command, communicator_.ranks())));
  if (launch.is_copied) {
    launch.call.output = command.call.output;
  } else {
    HORING_ASSIGN(const cuda::BoundPlan* const plan, planFor(command, number));
    if (!plan) return false;
    HORING_ASSIGN(launch.call, plan->prepare(command.call));
    launch.lanes = plan->lanes();
  }
  launch.call.number = number;
  launch.type = command.call.type;
  launch.op = command.call.op;
  HORING_TRY(team_->launches().enter(launch));
  if (launch.is_recorded) watch_.recorded(launch.call.number);
  return true;
}

Result<bool> KernelCalls::enqueue(const Command& command, CudaStream stream) {
  if (movesNothing(command)) {
    HORING_TRY(device_->checkStream(stream));
    return true;
  }
  HORING_ASSIGN(const bool taken, enter(command, stream));
  enqueued_ |= taken;
  return taken;
}

Result<CudaStream> KernelCalls::enterBlocking(const Command& command) {
  if (!isForKernels(command)) return nullptr;
  HORING_ASSIGN(const bool serves, teamServes());
  if (!serves) return nullptr;
  HORING_ASSIGN(const CudaStream stream, team_->launches().ownStream(communicator_.rank()));
  HORING_ASSIGN(const bool taken, enter(command, stream));
  return taken ? stream : nullptr;
}

Result<bool> KernelCalls::enqueueBlocking(const Command& command) {
  HORING_ASSIGN(const CudaStream stream, enterBlocking(command));
  if (!stream) return false;
  enqueued_ = true;
  awaited_ = stream;
  return true;
}

Status KernelCalls::judged(const Status& launched) {
  return launched.ok() ? launched
                       : watch_.judge(team_->launches().firstWaiting(communicator_.rank()), launched);
}

Status KernelCalls::start() {
  return enqueued_ ? judged(team_->launches().start(communicator_.rank())) : Status();
}

Status KernelCalls::launch() {
  HORING_TRY(judged(team_->launches().start(communicator_.rank())));
  return judged(team_->launches().await(communicator_.rank(), patience()));
}

Status KernelCalls::settle() {
  if (std::exchange(enqueued_, false)) HORING_TRY(launch());
  const CudaStream stream = std::exchange(awaited_, nullptr);
  return stream ? complete(stream) : Status();
}

Status KernelCalls::complete(CudaStream stream) {
  const GpuPatience patience = this->patience();
  const OutsideOfGraphs outside(device_->api());
  HORING_TRY(device_->synchronize(stream, patience.news, patience.deadline));
  return watch_.outcome();
}

Result<bool> KernelCalls::run(const Command& command) {
  HORING_ASSIGN(const CudaStream stream, enterBlocking(command));
  if (!stream) return false;
  HORING_TRY(launch());
  HORING_TRY(complete(stream));
  return true;
}

}  // namespace horing
