#include "comm/gpu/kernel_calls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "comm/calls/total_bytes.h"
#include "comm/gpu/kernel_parts.h"
#include "cuda/outside_of_graphs.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

constexpr int64_t kGiveUpMs = 1000;  // unless earlier work blocks the stream

size_t bufferBytes(const Call& call, ChunkSet holds, int ranks) {
  return call.count * dataTypeBytes(call.type) * blocksIn(holds, call.collective, ranks);
}
// Also set on ranks without the buffer, where it is not used.
std::span<const std::byte> readsOf(const Call& call, int ranks) {
  return {call.input, bufferBytes(call, contractOf(call.collective).in, ranks)};
}
std::span<const std::byte> writesOf(const Call& call, int ranks) {
  return {call.output, bufferBytes(call, contractOf(call.collective).out, ranks)};
}
std::span<const std::byte> scalarOf(const Call& call) {
  const auto* const at = static_cast<const std::byte*>(call.factor_at);
  return {at, at ? dataTypeBytes(call.type) : 0};
}

FlightRecord recordOf(const Call& call, int ranks) {
  return {.count = agreedCount(call, ranks),
          .root = call.root,
          .collective = call.collective,
          .type = call.type,
          .op = call.op};
}

}  // namespace

std::unique_ptr<KernelCalls> KernelCalls::of(Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const CommunicatorOptions& options = membership.options();
  std::shared_ptr<GpuTeam> team = options.gpus;
  if (!team && !options.hub && options.config.gpu_path == "auto") {
    // A single rank has no peers to agree with.
    if (membership.ranks() == 1) {
      team = std::make_shared<GpuTeam>(1);
    } else if (auto remote = RemoteGpus::of(communicator)) {
      team = std::make_shared<GpuTeam>(membership.ranks(), std::move(remote));
    }
  }
  return team ? std::make_unique<KernelCalls>(communicator, std::move(team)) : nullptr;
}

void KernelCalls::warnOfNone(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const CommunicatorOptions& options = membership.options();
  if (membership.rank() > 0 || options.hub || options.config.gpu_path != "auto") return;
  if (const Status why = RemoteGpus::whyNot(communicator); !why.ok()) warnOfHosts(membership.log(), why);
}

void KernelCalls::bind(std::shared_ptr<const CudaDevice> device) {
  device_ = device;
  team_->arrive(membership_.rank(), std::move(device));
}

GpuWaitLimit KernelCalls::waitLimit(int64_t timeout_ms) {
  return {Deadline::after(clock_, timeout_ms), [this]() -> Status {
            HORING_TRY(communicator_.messages().serveBeside());
            return communicator_.asyncError();
          }};
}

Status KernelCalls::agreeAtOnce() {
  const std::span<const HostIdentity> ranks = membership_.placement().identities();
  const auto has_told = [](const HostIdentity& rank) { return rank.gpu.has_value(); };
  if (!(team_->isRemote() ? mayHaveTerms(ranks).ok() : std::ranges::all_of(ranks, has_told))) return {};
  bind(membership_.options().gpu);
  const Result<bool> serves = teamServes(membership_.options().config.init_timeout_ms);
  // If hosts serve, the GPU of the first operation does not matter.
  if (serves.ok() && !serves.value()) device_ = nullptr;
  return serves.status();
}

Result<bool> KernelCalls::teamServes(int64_t timeout_ms) {
  // For the thread that watches kernels between calls and during graph replays.
  const auto news = [team = team_.get(), &communicator = communicator_] {
    Status error = communicator.membership().control().status();
    if (!error.ok()) team->abort();
    return error;
  };
  return team_->serves({membership_.rank(), membership_.options().config, membership_.placement().map(),
                        membership_.log(), news, timeout_ms},
                       waitLimit(timeout_ms));
}

Result<bool> KernelCalls::reachAll(const std::shared_ptr<const CudaDevice>& device) {
  const std::span<const HostIdentity> ranks = membership_.placement().identities();
  const auto is_here = [node = ranks.front().nodeLabel()](const HostIdentity& rank) {
    return rank.nodeLabel() == node;
  };
  if (!std::ranges::all_of(ranks, is_here)) return false;
  const bool was_bound = device_ != nullptr;
  if (!was_bound) bind(device);
  HORING_ASSIGN(const bool serves, teamServes());
  if (!serves && !was_bound) device_ = nullptr;
  return serves && team_->reachesAll();
}

const Selection& KernelCalls::selectionFor(const Call& call, const Selector& selector) const {
  const int ranks = membership_.ranks();
  const size_t bytes = selectionBytes(agreedCount(call, ranks), totalBytes(call, ranks));
  return team_->selectionFor(call, selector.select(call.collective, bytes));
}

bool KernelCalls::mustMeet(const Command& command) {
  const bool is_collective = !command.isExchange() && !command.isTask() && !isOfMessages(command);
  return team_->isRemote() && is_collective && !movesNothing(command) && !team_->isSettled();
}

Status KernelCalls::meet() {
  return teamServes().status();
}

Result<const cuda::BoundPlan*> KernelCalls::planFor(const Call& call, uint64_t launch) {
  const std::shared_ptr<const Selector> selector = communicator_.selector();
  const Selection& selection = selectionFor(call, *selector);
  const auto plans = team_->plans(call.collective, selection, call.root);
  // Sticky: other ranks have plans.
  if (!plans.ok()) return communicator_.breakOff(watch_.judge(launch, plans.status()));
  if (plans.value())
    return (*plans.value())[static_cast<size_t>(
                                membership_.placement().map().positionOfRank(membership_.rank()))]
        .get();
  watch_.withdrawn(launch);
  return nullptr;
}

// Makes the launch without its number and plan. Error: kInvalidUsage.
Result<GpuLaunch> KernelCalls::makeLaunch(const Call& call, CudaStream stream, uint64_t graph) {
  GpuLaunch launch;
  launch.rank = membership_.rank();
  launch.graph = graph;
  launch.reads = readsOf(call, membership_.ranks());
  launch.writes = writesOf(call, membership_.ranks());
  launch.scalar = scalarOf(call);
  launch.is_copied = call.collective == Collective::kAllGather && !call.block_of_position &&
                     !launch.isRecorded() && team_->copies(launch.reads.size());
  launch.call.output = call.output;
  launch.type = call.type;
  launch.op = call.op;
  launch.stream = stream;
  HORING_TRY(team_->launches().checkThread(launch));
  return launch;
}

// From here on the launch is in the ledger. False: withdrawn on all ranks.
Result<bool> KernelCalls::prepare(const Call& call, GpuLaunch& launch) {
  HORING_ASSIGN(const uint64_t number, watch_.begin(recordOf(call, membership_.ranks())));
  if (!launch.is_copied) {
    HORING_ASSIGN(const cuda::BoundPlan* const plan, planFor(call, number));
    if (!plan) return false;
    HORING_ASSIGN(launch.call, plan->prepare(call));
    launch.call.plan.timeout_ns = timeoutNs();
    launch.lanes = plan->lanes();
  }
  launch.call.number = number;
  return true;
}

Result<Taken> KernelCalls::enterCollective(Command& command, CudaStream stream) {
  if (command.isTask()) return Taken::kNothing;
  HORING_ASSIGN(const bool serves, teamServes());
  if (!serves) return Taken::kNothing;
  has_served_collective_ = true;
  if (isOfMessages(command)) return enterAsMessages(*command.call(), stream);
  HORING_ASSIGN(const uint64_t graph, recordedGraph({&stream, 1}));
  const std::vector<Call> parts = evenParts(command, membership_.rank(), membership_.ranks());
  std::vector<GpuLaunch> made, launches;
  for (const Call& part : parts) {
    HORING_ASSIGN(GpuLaunch launch, makeLaunch(part, stream, graph));
    launch.is_pinned = !command.pinned.empty();
    made.push_back(std::move(launch));
  }
  std::vector<ListEntry> left;
  for (size_t i = 0; i < parts.size(); ++i) {
    HORING_ASSIGN(const bool is_prepared, prepare(parts[i], made[i]));
    if (is_prepared) {
      launches.push_back(made[i]);
    } else {
      left.push_back({parts[i].input, parts[i].output, parts[i].count});
    }
  }
  auto* const list = std::get_if<ListCommand>(&command.work);
  // Hosts can take over single entries of a list, but no part of any other call, and nothing recorded.
  if (launches.empty() || (!left.empty() && (!list || graph != 0))) {
    for (const GpuLaunch& launch : launches) watch_.withdrawn(launch.call.number);
    return Taken::kNothing;
  }
  for (const GpuLaunch& launch : launches) HORING_TRY(enter(launch));
  if (left.empty()) return Taken::kAll;
  list->entries = std::move(left);
  return Taken::kSome;
}

// Whether kernels carry messages at all. If the communicator has two processes, both are in this call and may agree on it now; a single
// rank needs no agreement.
Result<bool> KernelCalls::carriesMessages(const Command& command) {
  const auto isOfBoth = [own = membership_.rank()](const Transfer& each) {
    return each.on_gpu && each.peer != own;
  };
  const auto transfers = command.transfers();
  if (membership_.ranks() == 1) return teamServes();
  if (team_->isRemote() && membership_.ranks() == 2 &&
      std::any_of(transfers.begin(), transfers.end(), isOfBoth))
    HORING_TRY(teamServes().status());
  HORING_ASSIGN(const cuda::BoundExchange* const exchange, team_->exchange(membership_.rank()));
  return exchange != nullptr;
}

Status KernelCalls::enter(const GpuLaunch& launch) {
  HORING_TRY(team_->launches().enter(launch));
  const uint64_t number = launch.call.number;
  if (launch.isRecorded() && number != cuda::kNoCall) watch_.recorded(number);
  return {};
}

Result<Taken> KernelCalls::enterMessages(Command& command, std::span<const CudaStream> streams) {
  const int own = membership_.rank();
  HORING_ASSIGN(const bool carries, carriesMessages(command));
  if (!carries) return Taken::kNothing;
  HORING_ASSIGN(const cuda::BoundExchange* const exchange, team_->exchange(own));
  GpuLaunch launch;
  launch.rank = own;
  launch.call.number = cuda::kNoCall;
  HORING_ASSIGN(launch.graph, recordedGraph(streams));
  std::vector<Transfer> taken, rest;
  // Both ends of a message are on GPUs, or neither is. An empty message has no buffer that tells: both ends must know otherwise that both
  // work on GPUs.
  const bool both_know = launch.isRecorded() || membership_.ranks() == 2 || has_served_collective_;
  for (const Transfer& each : command.transfers()) {
    const bool is_on_gpus = each.on_gpu && (each.bytes > 0 || both_know);
    const bool is_taken =
        each.peer == own || (is_on_gpus && team_->carriesMessagesWith(each.peer, launch.isRecorded()));
    (is_taken ? taken : rest).push_back(each);
  }
  if (launch.isRecorded() && !rest.empty())
    return makeStatus(
        Code::kInvalidUsage,
        "rank %d: a message %s rank %d goes through the host, and cannot be part of a graph: %s; "
        "launch it outside",
        own, rest.front().direction() == Transfer::Direction::kSend ? "to" : "from", rest.front().peer,
        rest.front().on_gpu ? "its GPU's memory is not reached, and there are too many ranks for this "
                              "(33), or one has not the memory for it"
                            : "it is not in a GPU's memory");
  HORING_ASSIGN(GpuExchange messages, makeMessages(exchange, taken, launch.isRecorded()));
  if (messages.kernels.empty() && !rest.empty()) return Taken::kNothing;
  launch.stream = streams.front();
  messages.others.assign(streams.begin() + 1, streams.end());
  // Hosts and kernels carry messages concurrently, so on different streams.
  if (!rest.empty()) {
    launch.stream = team_->launches().sideStream(own);
    messages.others.assign(streams.begin(), streams.end());
    messages.is_followed_later = true;
  }
  launch.exchange = std::make_shared<const GpuExchange>(std::move(messages));
  HORING_TRY(team_->launches().checkThread(launch));
  if (!launch.isRecorded()) HORING_TRY(watch_.beginMessages(taken));
  HORING_TRY(enter(launch));
  if (rest.empty()) return Taken::kAll;
  std::get<ExchangeCommand>(command.work).transfers = std::move(rest);
  return Taken::kSome;
}

// kInvalidUsage: a stream belongs to another rank's GPU, or may not record, or the streams do not all record the same graph, or none.
Result<uint64_t> KernelCalls::recordedGraph(std::span<const CudaStream> streams) const {
  std::set<uint64_t> graphs;
  for (const CudaStream stream : streams) {
    HORING_TRY(device_->checkStream(stream));
    HORING_ASSIGN(const uint64_t graph, team_->launches().recordedGraph(membership_.rank(), stream));
    graphs.insert(graph);
  }
  if (graphs.size() > 1)
    return makeStatus(
        Code::kInvalidUsage,
        "rank %d: streams of a group's sends and receives %s: they go together, so either all record "
        "the same one or none",
        membership_.rank(),
        graphs.contains(0) ? "record a graph, and others of them do not" : "record different graphs");
  return *graphs.begin();
}

Result<Taken> KernelCalls::enterAsMessages(const Call& call, CudaStream stream) {
  HORING_ASSIGN(const cuda::BoundExchange* const exchange, team_->exchange(membership_.rank()));
  GpuLaunch launch;
  launch.rank = membership_.rank();
  HORING_ASSIGN(launch.graph, recordedGraph({&stream, 1}));
  if (membership_.ranks() > 1 && (!exchange || !team_->carriesAllMessages(launch.isRecorded())))
    return Taken::kNothing;
  launch.stream = stream;
  HORING_TRY(team_->launches().checkThread(launch));
  HORING_ASSIGN(GpuExchange messages,
                makeMessages(exchange, messagesOf(call, membership_.ranks()), launch.isRecorded()));
  HORING_ASSIGN(launch.call.number, watch_.begin(recordOf(call, membership_.ranks())));
  for (cuda::ExchangeCall& kernel : messages.kernels)
    kernel.number = launch.isRecorded() ? launch.call.number | cuda::kInGraph : launch.call.number;
  launch.exchange = std::make_shared<const GpuExchange>(std::move(messages));
  HORING_TRY(enter(launch));
  return Taken::kAll;
}

// Messages with ranks that `exchange` serves, and to this rank itself; null: none.
Result<GpuExchange> KernelCalls::makeMessages(const cuda::BoundExchange* exchange,
                                              std::span<const Transfer> transfers, bool is_recorded) const {
  const int own = membership_.rank();
  HORING_ASSIGN(const std::vector<OwnMessage> to_self, ownMessages(own, transfers));
  GpuExchange messages;
  for (const auto& [send, receive] : to_self)
    if (send->bytes > 0 && receive->output() != send->input())
      messages.to_self.push_back({receive->output(), {send->input(), send->bytes}});
  std::vector<Transfer> to_others;
  for (const Transfer& each : transfers)
    if (each.peer != own) to_others.push_back(each);
  if (!exchange) return messages;
  HORING_TRY(team_->connectMessages(own, to_others));
  messages.kernels =
      exchange->prepare(to_others, is_recorded ? cuda::kNoCall | cuda::kInGraph : cuda::kNoCall);
  for (cuda::ExchangeCall& kernel : messages.kernels) kernel.view.timeout_ns = timeoutNs();
  return messages;
}

Result<Taken> KernelCalls::enter(Command& command, std::span<const CudaStream> streams) {
  return command.isExchange() ? enterMessages(command, streams) : enterCollective(command, streams.front());
}

Result<bool> KernelCalls::enqueue(Command& command, std::span<const CudaStream> streams) {
  if (movesNothing(command)) {
    HORING_TRY(device_->checkStream(streams.front()));
    return true;
  }
  HORING_ASSIGN(command.taken, enter(command, streams));
  enqueued_ |= command.taken != Taken::kNothing;
  if (command.taken == Taken::kSome && command.isExchange())
    followers_.assign(streams.begin(), streams.end());
  return command.taken == Taken::kAll;
}

// The stream on which the taken part completes; null: nothing was taken.
Result<CudaStream> KernelCalls::enterBlocking(Command& command) {
  command.taken = Taken::kNothing;
  // A rank may have no messages in the call, and then cannot know that the messages are on GPUs.
  if (command.isTask() || movesNothing(command) || isOfMessages(command)) return nullptr;
  // Before this, the rank has no stream.
  HORING_ASSIGN(const bool serves, command.isExchange() ? carriesMessages(command) : teamServes());
  if (!serves) return nullptr;
  HORING_ASSIGN(const CudaStream stream, team_->launches().ownStream(membership_.rank()));
  HORING_ASSIGN(command.taken, enter(command, {&stream, 1}));
  return command.taken == Taken::kNothing ? nullptr : stream;
}

Result<bool> KernelCalls::enqueueBlocking(Command& command) {
  HORING_ASSIGN(const CudaStream stream, enterBlocking(command));
  if (stream) {
    enqueued_ = true;
    awaited_ = stream;
  }
  return command.taken == Taken::kAll;
}

Status KernelCalls::judged(const Status& launched) {
  return launched.ok() ? launched
                       : watch_.judge(team_->launches().firstWaiting(membership_.rank()), launched);
}

Status KernelCalls::start() {
  return enqueued_ ? judged(team_->launches().start(membership_.rank())) : Status();
}

Status KernelCalls::launch(CudaStream awaited) {
  Status launched = judged(team_->launches().start(membership_.rank()));
  if (launched.ok()) launched = judged(team_->launches().await(membership_.rank(), waitLimit(timeoutMs())));
  if (!launched.ok() && awaited) giveUp(awaited);
  return launched;
}

Status KernelCalls::settle() {
  const CudaStream stream = std::exchange(awaited_, nullptr);
  if (std::exchange(enqueued_, false)) HORING_TRY(launch(stream));
  return stream ? complete(stream) : Status();
}

Status KernelCalls::complete(CudaStream stream) {
  const GpuWaitLimit limit = this->waitLimit(timeoutMs());
  const OutsideOfGraphs outside(device_->api());
  const Status completed = device_->synchronize(stream, limit.news, limit.deadline);
  if (completed.ok()) return watch_.outcome();
  giveUp(stream);
  return completed;
}

// The caller of a failed call may free its buffers at once, so kernels end before it returns.
void KernelCalls::giveUp(CudaStream stream) {
  team_->abort();
  const OutsideOfGraphs outside(device_->api());
  (void)device_->synchronize(
      stream, [] { return Status(); }, Deadline::after(clock_, kGiveUpMs));
}

Status KernelCalls::follow() {
  if (followers_.empty()) return {};
  return team_->launches().follow(membership_.rank(), std::exchange(followers_, {}));
}

Result<bool> KernelCalls::begin(Command& command) {
  HORING_ASSIGN(const CudaStream stream, enterBlocking(command));
  if (!stream) return false;
  begun_ = stream;
  if (const Status launched = launch(stream); !launched.ok()) return communicator_.breakOff(launched);
  return command.taken == Taken::kAll;
}

Status KernelCalls::finish() {
  const CudaStream stream = std::exchange(begun_, nullptr);
  return stream ? complete(stream) : Status();
}

}  // namespace horing
