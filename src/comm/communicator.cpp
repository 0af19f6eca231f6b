// How a communicator runs a collective, and how it ends.
#include "comm/communicator.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/no_memory.h"
#include "comm/calls/total_bytes.h"
#include "comm/links/links_coming_up.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

constexpr int64_t kGiveUpMs = 2000;
// In calls up to this size reading the clock matters: the message takes 58 ns, the clock 25 ns.
constexpr size_t kTinyBytes = 16 << 10;
static_assert(kTinyBytes < kInPlaceBytes, "they lend no memory");
// A rank that was stopped for this long may have been declared lost without knowing it; beside that time, a query to the rendezvous is
// cheap.
constexpr int64_t kStoppedNs = 100'000'000;
// In less time no peer gives up and changes its buffers; beside that time, a check for news is cheap.
constexpr int64_t kInstantNs = 1'000'000;
bool serves(const Algorithm& algorithm, Collective collective, const ReachableBuffers& reachable) {
  if (algorithm.buffers == Buffers::kReadByPeers) return reachable.inputs != nullptr;
  return reachable.outputs && (reachable.inputs || !contractOf(collective).folds());
}

}  // namespace

Communicator::~Communicator() {
  if (!membership_ || membership_->isForkedChild())
    return;  // a child only drops its copies of the parent's connections
  // Keeps the control thread out.
  if (guard_) guard_->close();
  records_->writeTimeline();
  Control& control = membership_->control();
  if (!(guard_ && guard_->hasLeft()) && control.status().ok())
    control.announceError(
        makeStatus(Code::kRemoteError, "rank %d aborted its communicator", membership_->rank()));
}

Status Communicator::run(const Call& call) {
  // The time of an algorithm that the caller chose says nothing of the one that the rates shall improve.
  if (!isObserved() || call.algorithm || call.collective != Collective::kAllReduce) return runOne(call);
  const size_t bytes = totalBytes(call, membership_->ranks());
  return bytes < kLeastUnequalBytes ? runOne(call) : runObserved(call, bytes);
}

Status Communicator::runObserved(const Call& call, size_t bytes) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  const Guard::Within within(*guard_);
  const int64_t begun_ns = clock_.nowNs();
  HORING_TRY(runOne(call));
  const int64_t took_ns = clock_.nowNs() - begun_ns;
  const Status observed = withoutExceptions([&] { return observer_->ended(bytes, took_ns); });
  return observed.ok() ? observed : guard_->fail(observed);
}

Status Communicator::runOne(const Call& call) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_TRY(guard_->mayBegin());
  PreparedCall* prepared = prepared_.find(call);
  if (!prepared) {
    HORING_ASSIGN(prepared, prepare(call));
  }
  HORING_TRY(checkBuffers(prepared->rules, call.input, call.output));
  if (movesNothing(call)) return {};
  const uint64_t sequence = sequence_++;
  // Exactly once for each call: asksPeers() counts calls.
  const bool asks = !prepared->shared.empty() && reach_->asksPeers(onlyMoves(call));
  PlannedOperation* const ready = prepared->is_tiny && !asks ? prepared->planned : nullptr;
  if (ready) {
    // Messages that can be sent at once are in flight while the call is recorded.
    ready->operation->begin(call, sequence);
    ready->operation->poll();
  }
  FlightRecord record = prepared->record;
  record.sequence = sequence;
  const int64_t timeout_ms = call.timeout_ms > 0 ? call.timeout_ms : timeoutMs();
  return guard_->recorded(
      record, timeout_ms, progress_->lookedNs(), ready != nullptr, [&](Deadline deadline) {
        const CallContext context{sequence, deadline, timeout_ms};
        return ready ? driveToEnd(*ready, context) : runByBestPath(*prepared, call, context, asks);
      });
}

Result<PreparedCall*> Communicator::prepare(const CallSpec& spec) {
  BufferRules rules;
  const int ranks = membership_->ranks();
  HORING_TRY(findBufferRules(spec, {membership_->rank(), ranks, membership_->position()}, rules));
  PreparedCall& prepared = prepared_.add(spec);
  prepared.rules = rules;
  const uint64_t count = agreedCount(spec, ranks);
  const size_t bytes = totalBytes(spec, ranks);
  if (spec.algorithm) {
    prepared.asked_for =
        selectionOf(*findAlgorithm(spec.algorithm), membership_->placement().map(), choices_.rates);
    prepared.over_links = &prepared.asked_for;
  } else {
    prepared.over_links = &selector_->select(spec.collective, selectionBytes(count, bytes));
  }
  // A reader of a peer's input scales it by its own factor; the factors of a premulsum may differ among ranks.
  const bool may_share = !spec.uneven && !spec.algorithm && spec.op != RedOp::kPreMulSum;
  prepared.shared =
      may_share ? selector_->selectShared(spec.collective, bytes) : std::span<const Selection>();
  // A timeline starts before the first step.
  prepared.is_tiny = bytes <= kTinyBytes && !records_->timeline();
  prepared.planned = planner_->find(spec.collective, *prepared.over_links, spec.root);
  prepared.record = {.count = count,
                     .root = spec.root,
                     .collective = spec.collective,
                     .type = spec.type,
                     .op = spec.op,
                     .algorithm = spec.algorithm};
  return &prepared;
}

Status Communicator::runByBestPath(PreparedCall& prepared, const Call& call, const CallContext& context,
                                   bool asks) {
  if (asks) {
    Status status = withoutExceptions([&] { return askPeersAndRun(prepared, call, context); });
    if (!status.ok() && !reach_->users().giveUp(status, Deadline::after(clock_, kGiveUpMs)))
      membership_->log().warn(
          "comm",
          "rank %d: a call has failed, and after %lld ms another rank of this process still reads from its "
          "buffers: keep them until the calls of all ranks have returned",
          membership_->rank(), static_cast<long long>(kGiveUpMs));
    return status;
  }
  const Status status = runPlanned(*prepared.over_links, call, context);
  if (!prepared.planned) prepared.planned = planner_->find(call.collective, *prepared.over_links, call.root);
  return status;
}

Status Communicator::askPeersAndRun(const PreparedCall& prepared, const Call& call,
                                    const CallContext& context) {
  const BufferUsers::Inside inside(reach_->users());
  const std::span<const Selection> shared = prepared.shared;
  const bool may_write = std::any_of(shared.begin(), shared.end(), [](const Selection& selection) {
    return selection.algorithm->buffers == Buffers::kWrittenByPeers;
  });
  // Only calls that move data are timed, since reading some clocks is slow.
  const auto now = [&, is_timed = onlyMoves(call)] { return is_timed ? clock_.nowNs() : 0; };
  const int64_t begun_ns = now();
  const Selection gather{findAlgorithm("direct"), {1, membership_->ranks()}};
  HORING_ASSIGN(const ReachableBuffers reachable,
                reach_->askPeers(call, membership_->ranks(), may_write,
                                 [&](const Call& offer) { return runPlanned(gather, offer, context); }));
  const int64_t asked_ns = now();
  HORING_TRY(progress_->lookAround());
  Call reaching = call;
  reaching.peer_inputs = reachable.inputs;
  reaching.reader = reachable.reader;
  reaching.peer_outputs = reachable.outputs;
  const auto serving = std::find_if(shared.begin(), shared.end(), [&](const Selection& selection) {
    return serves(*selection.algorithm, call.collective, reachable);
  });
  const bool served = serving != shared.end();
  const Status status = served ? runOnPeerBuffers(*serving, reaching, context)
                               : runPlanned(*prepared.over_links, call, context);
  reach_->learn(served, asked_ns - begun_ns, now() - asked_ns);
  return status;
}

// Runs a schedule that accesses buffers of peers. If it fails, a slow or stopped peer may still write into this rank's output: the memory
// must be safe from such writes before the caller reuses it. A rank that was stopped so long that others gave up may have read buffers that
// they reused since, although all its waits ended well: it asks the rendezvous before it reports success.
Status Communicator::runOnPeerBuffers(const Selection& selection, const Call& call,
                                      const CallContext& context) {
  const int64_t begun_ns = clock_.nowNs();
  Status status = runPlanned(selection, call, context);
  if (status.ok()) {
    const int64_t took_ns = clock_.nowNs() - begun_ns;
    const bool asks = took_ns >= kStoppedNs || (took_ns >= kInstantNs && membership_->control().isBehind());
    status = withoutExceptions(
        [&] { return asks ? membership_->control().catchUp(context.deadline) : progress_->lookAround(); });
  }
  if (status.ok() || selection.algorithm->buffers != Buffers::kWrittenByPeers) return status;
  reach_->cutOff(call.output, bytesIn(contractOf(call.collective).out, call, membership_->ranks()));
  return status;
}

Status Communicator::runPlanned(const Selection& selection, const Call& call, const CallContext& context) {
  uint32_t transports = 0;
  const Status status = withoutExceptions([&]() -> Status {
    const Result<PlannedOperation*> found = planner_->prepare(call.collective, selection, call.root);
    if (!found.ok()) {
      guard_->watchdog().suspect(context.sequence, {{}, "begins its links"});
      return found.status();
    }
    PlannedOperation* const planned = found.value();
    if (!planned->operation) HORING_TRY(connect(*planned, context));
    transports = planned->transports;
    planned->operation->begin(call, context.sequence);
    reach_->lend(transports, *planned->operation, call);
    return driveToEnd(*planned, context);
  });
  reach_->takeBack(!status.ok());
  return status;
}

Status Communicator::driveToEnd(const PlannedOperation& planned, const CallContext& context) {
  return progress_->drive({.operation = *planned.operation,
                           .transports = planned.transports,
                           .deadline = context.deadline,
                           .timeout_ms = context.timeout_ms});
}

Result<std::vector<std::vector<std::byte>>> Communicator::allGather(std::span<const std::byte> mine,
                                                                    std::string_view what) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_TRY(guard_->mayBegin());
  const int64_t timeout_ms = guard_->isWithin() ? timeoutMs() : membership_->config().init_timeout_ms;
  auto gathered = guard_->allGather(mine, timeout_ms, what);
  if (!gathered.ok()) return guard_->fail(gathered.status());
  return gathered;
}

Result<Membership::Bootstrap> Communicator::bootstrap(std::span<const int> members) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  const Away away = guard_->away();
  return membership_->bootstrap(members);
}

// Both ends of a new link are in the same call.
Status Communicator::connect(PlannedOperation& planned, const CallContext& context) {
  LinksComingUp coming_up(*connector_, planned.links, context.sequence);
  HORING_TRY(progress_->drive({.operation = coming_up,
                               .transports = planned.transports,
                               .deadline = context.deadline,
                               .timeout_ms = context.timeout_ms}));
  planner_->bind(planned);
  noteMemory();
  return {};
}

Status Communicator::leave() {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns())
    return makeStatus(Code::kInvalidUsage,
                      "rank %d: a collective is running in another thread; use horingCommAbort",
                      membership_->rank());
  sayGoodbye();
  return {};
}

void Communicator::sayGoodbye() {
  guard_->leave();
  if (const DataMoved moved = reach_->dataMoved(); moved.sent_in_place + moved.sent_through_slots > 0)
    membership_->log().info("comm",
                            "over RDMA and TCP: sent %" PRIu64 " bytes in place, %" PRIu64
                            " through slots; received %" PRIu64 " in place, %" PRIu64 " through slots",
                            moved.sent_in_place, moved.sent_through_slots, moved.received_in_place,
                            moved.received_through_slots);
}

Status Communicator::finalize() {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  if (guard_->hasLeft() && guard_->mayBegin().code() == Code::kInvalidUsage)
    return makeStatus(Code::kInvalidArgument, "rank %d: the communicator was finalized before",
                      membership_->rank());
  HORING_TRY(guard_->mayBegin());
  sayGoodbye();
  return {};
}

void Communicator::noteMemory() const {
  memory_bytes_ =
      connector_->memoryBytes() + planner_->memoryBytes() + untagged_messages_->operation().memoryBytes() +
      messages_beside_->operation().memoryBytes() + measurement_messages_->operation().memoryBytes();
}

uint64_t Communicator::memoryBytes() const {
  // Between calls the control thread may drive transports.
  const ExclusiveUse exclusive = guard_->enter(Use::kLook);
  if (exclusive.owns()) noteMemory();
  return memory_bytes_;
}

}  // namespace horing
