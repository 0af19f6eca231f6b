// How a communicator runs a collective, and how it ends.
#include "comm/communicator.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/no_memory.h"
#include "comm/calls/total_bytes.h"
#include "comm/links/links_coming_up.h"
#include "control/root_service.h"
#include "cuda/adapter_memory.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

constexpr int64_t kGiveUpMs = 2000;
// Calls in which a look at the clock counts: the message travels in 58 ns, and the look takes 25.
constexpr size_t kTinyBytes = 16 << 10;
static_assert(kTinyBytes < kInPlaceBytes, "they lend no memory");
// A rank that did not run for so long may have been given up without having heard; and a question to the rendezvous is little beside it.
constexpr int64_t kStoppedNs = 100'000'000;
// Nor has anybody given up, and changed its buffers, in less; and a look whether there is news is little beside that.
constexpr int64_t kInstantNs = 1'000'000;
// Over TCP, what the peer has not acknowledged when a call ends is copied then. So who only sends does so from a vector that is much larger.
constexpr size_t kWorthSendingBytes = 4 << 20;

bool onlyMoves(const Call& call) {
  return !contractOf(call.collective).folds() && !call.copier;
}

bool serves(const Algorithm& algorithm, Collective collective, const ReachableBuffers& reachable) {
  if (algorithm.buffers == Buffers::kReadByPeers) return reachable.inputs != nullptr;
  return reachable.outputs && (reachable.inputs || !contractOf(collective).folds());
}

}  // namespace

Communicator::~Communicator() {
  // So that the thread of control_ finds it taken; a forked child has none, and perhaps a copy of the moment in which it looked.
  if (guard_ && !isForkedChild()) guard_->close();
  if (timeline_ && !isForkedChild()) writeTimeline();
  // A child that was forked must not close what its parent still talks through; it only drops its copies.
  if (control_ && !isForkedChild() && !(guard_ && guard_->hasLeft()) && control_->status().ok())
    control_->announceError(
        makeStatus(Code::kRemoteError, "rank %d aborted its communicator", options_.rank));
}

Status Communicator::run(const Call& call) {
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
  // Once for each call, for it counts them.
  const bool asks = !prepared->shared.empty() && peer_buffers_->asks(onlyMoves(call));
  PlannedOperation* const ready = prepared->is_tiny && !asks ? prepared->planned : nullptr;
  if (ready) {
    // What can be sent at once is on its way while the call is written down.
    ready->operation->begin(call, sequence);
    ready->operation->poll();
  }
  FlightRecord record = prepared->record;
  record.sequence = sequence;
  return guard_->recorded(record, timeoutMs(), progress_->lookedNs(), ready != nullptr,
                          [&](Deadline deadline) {
                            return ready ? driveToEnd(*ready, {sequence, deadline})
                                         : runByBestPath(*prepared, call, {sequence, deadline}, asks);
                          });
}

Result<PreparedCall*> Communicator::prepare(const CallSpec& spec) {
  BufferRules rules;
  HORING_TRY(findBufferRules(spec, {rank(), ranks(), job_->map().positionOfRank(rank())}, rules));
  PreparedCall& prepared = prepared_.add(spec);
  prepared.rules = rules;
  const size_t bytes = totalBytes(spec, options_.ranks);
  prepared.over_links = &selector_->select(spec.collective, bytes);
  // Who reads a peer's input scales it by a factor of its own; those of a premulsum may differ.
  const bool may_share = !spec.uneven && spec.op != RedOp::kPreMulSum;
  prepared.shared =
      may_share ? selector_->selectShared(spec.collective, bytes) : std::span<const Selection>();
  // A timeline begins before the first step.
  prepared.is_tiny = bytes <= kTinyBytes && !timeline_;
  prepared.planned = planner_->find(spec.collective, *prepared.over_links, spec.root);
  prepared.record = {.count = agreedCount(spec, options_.ranks),
                     .root = spec.root,
                     .collective = spec.collective,
                     .type = spec.type,
                     .op = spec.op};
  return &prepared;
}

Status Communicator::runByBestPath(PreparedCall& prepared, const Call& call, const Turn& turn, bool asks) {
  if (asks) {
    Status status = withoutExceptions([&] { return askPeersAndRun(prepared, call, turn); });
    if (!status.ok() && !buffer_users_->giveUp(status, Deadline::after(clock_, kGiveUpMs)))
      log_.warn(
          "comm",
          "rank %d: a call has failed, and after %lld ms another rank of this process still reads from its "
          "buffers: keep them until the calls of all ranks have returned",
          options_.rank, static_cast<long long>(kGiveUpMs));
    return status;
  }
  const Status status = runPlanned(*prepared.over_links, call, turn);
  if (!prepared.planned) prepared.planned = planner_->find(call.collective, *prepared.over_links, call.root);
  return status;
}

Status Communicator::askPeersAndRun(const PreparedCall& prepared, const Call& call, const Turn& turn) {
  const BufferUsers::Inside inside(*buffer_users_);
  const std::span<const Selection> shared = prepared.shared;
  const bool may_write = std::any_of(shared.begin(), shared.end(), [](const Selection& selection) {
    return selection.algorithm->buffers == Buffers::kWrittenByPeers;
  });
  // Nobody asks how long others take, and a look at some clocks takes long.
  const auto now = [&, is_timed = onlyMoves(call)] { return is_timed ? clock_.nowNs() : 0; };
  const int64_t begun_ns = now();
  HORING_ASSIGN(const ReachableBuffers reachable, askForBuffers(call, may_write, turn));
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
  const Status status =
      served ? runOnPeerBuffers(*serving, reaching, turn) : runPlanned(*prepared.over_links, call, turn);
  peer_buffers_->learn(served, asked_ns - begun_ns, now() - asked_ns);
  return status;
}

// Carries out what reaches for buffers of peers. Where it fails, a peer may still be about to write into this rank's output, and
// be stopped, or slow: what the caller does with that memory from now on must be safe from it. And a rank that was stopped so long
// that others gave up may have read what they did with theirs, and find all done that it waits for: it asks before it says so.
Status Communicator::runOnPeerBuffers(const Selection& selection, const Call& call, const Turn& turn) {
  const int64_t begun_ns = clock_.nowNs();
  Status status = runPlanned(selection, call, turn);
  if (status.ok()) {
    const int64_t took_ns = clock_.nowNs() - begun_ns;
    const bool asks = took_ns >= kStoppedNs || (took_ns >= kInstantNs && control_->isBehind());
    status =
        withoutExceptions([&] { return asks ? control_->catchUp(turn.deadline) : progress_->lookAround(); });
  }
  if (status.ok() || selection.algorithm->buffers != Buffers::kWrittenByPeers) return status;
  const size_t bytes = bytesIn(contractOf(call.collective).out, call);
  if (const Status cut = options_.segments->cutOff(call.output, bytes); !cut.ok())
    log_.warn("comm", "%s", cut.message().c_str());
  return status;
}

size_t Communicator::bytesIn(ChunkSet set, const CallSpec& spec) const {
  return blocksIn(set, spec.collective, options_.ranks) * spec.count * dataTypeBytes(spec.type);
}

Result<ReachableBuffers> Communicator::askForBuffers(const Call& call, bool may_write, const Turn& turn) {
  const Contract contract = contractOf(call.collective);
  const Selection exchange{findAlgorithm("direct"), {1, options_.ranks}};
  const Call offer =
      peer_buffers_->offer({call.input, bytesIn(contract.in, call)},
                           {call.output, may_write ? bytesIn(contract.out, call) : 0}, onlyMoves(call));
  HORING_TRY(runPlanned(exchange, offer, turn));
  if (peer_buffers_->needsConfirmation())
    HORING_TRY(runPlanned(exchange, peer_buffers_->confirmation(), turn));
  return peer_buffers_->agreed();
}

Status Communicator::runPlanned(const Selection& selection, const Call& call, const Turn& turn) {
  uint32_t transports = 0;
  const Status status = withoutExceptions([&]() -> Status {
    const Result<PlannedOperation*> found = planner_->prepare(call.collective, selection, call.root);
    if (!found.ok()) {
      guard_->watchdog().suspect(turn.sequence, {{}, "begins its links"});
      return found.status();
    }
    PlannedOperation* const planned = found.value();
    if (!planned->operation) HORING_TRY(connect(*planned, turn));
    transports = planned->transports;
    planned->operation->begin(call, turn.sequence);
    if (planned->operation->movesInPlace()) {
      for (const void* memory : {static_cast<const void*>(call.input), static_cast<const void*>(call.output)})
        lent_->lendRegistered(transports, memory);
      const size_t bytes = planned->operation->outputEnd();
      const bool is_callers = call.list == 0 && !call.copier;
      if (is_callers && (planned->operation->lands() || bytes >= kWorthSendingBytes))
        lent_->lendOrdinary(transports, call.output, bytes);
    }
    return driveToEnd(*planned, turn);
  });
  lent_->takeBack(!status.ok(), 0);
  return status;
}

Status Communicator::driveToEnd(const PlannedOperation& planned, const Turn& turn) {
  return progress_->drive({.operation = *planned.operation,
                           .sequence = turn.sequence,
                           .transports = planned.transports,
                           .deadline = turn.deadline});
}

Result<void*> Communicator::registerMemory(std::byte* memory, size_t bytes, const CudaDevice* gpu) {
  const bool is_shared = options_.segments && options_.segments->find(memory, bytes);
  const uint32_t chosen = connector_->chosenTransports();
  const bool is_used =
      gpu ? connector_->usesGpuMemory(chosen) : is_shared || connector_->usesLentMemory(chosen);
  if (!is_used) return static_cast<void*>(nullptr);
  if (!gpu) return registrations_.add(memory, bytes);
  Result<AdapterMemory> found =
      adapterMemory(*gpu, memory, bytes, AdapterWays::of(options_.config.ib_gpu_memory));
  if (found.ok()) return registrations_.add(memory, bytes, found.take());
  log_.info("comm", "memory of a GPU goes through the host's: %s", found.status().message().c_str());
  return static_cast<void*>(nullptr);
}

bool Communicator::movesInPlace(const Transfer& transfer) const {
  if (transfer.peer == options_.rank || transfer.bytes < kInPlaceBytes) return false;
  const bool sends = transfer.direction == Transfer::Direction::kSend;
  const std::byte* const memory = sends ? transfer.input : transfer.output;
  const std::optional<Region> region = registrations_.find(memory);
  if (!region || !region->ofGpu() || !region->contains(memory, transfer.bytes)) return false;
  const int transport = connector_->choiceFor(transfer.peer);
  return transport >= 0 && connector_->usesGpuMemory(1u << transport);
}

Status Communicator::deregister(const void* handle) {
  HORING_ASSIGN(const uint64_t region, registrations_.remove(handle));
  connector_->forget(region);
  return {};
}

Status Communicator::exchange(std::span<const Transfer> transfers) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_TRY(guard_->mayBegin());
  const bool from_any = std::any_of(transfers.begin(), transfers.end(),
                                    [](const Transfer& transfer) { return transfer.peer == kAnyRank; });
  const bool tagged = transfers.front().tag.has_value();
  PointToPoint& messages = tagged ? *tagged_messages_ : *point_to_point_;
  LinkSet links{tagged ? LinkUse::kTagged : LinkUse::kPointToPoint, {}};
  for (const Transfer& transfer : transfers)
    if (transfer.peer != options_.rank && !from_any) links.peers.push_back(transfer.peer);
  for (int peer = 0; from_any && peer < options_.ranks; ++peer)
    if (peer != options_.rank) links.peers.push_back(peer);
  // Nothing is sent yet: such an error does not stick.
  HORING_TRY(messages.begin(transfers));
  Status status = connector_->begin(links);
  if (!connector_->established(links)) noteMemory();
  guard_->calls().beginExchange();
  if (status.ok()) {
    const uint32_t transports = connector_->transportsOf(links);
    status = withoutExceptions([&] {
      for (const Transfer& transfer : transfers) {
        if (transfer.bytes < kInPlaceBytes) continue;
        const bool sends = transfer.direction == Transfer::Direction::kSend;
        lent_->lendRegistered(transports, sends ? transfer.input : transfer.output);
        if (!sends && !transfer.copier) lent_->lendOrdinary(transports, transfer.output, transfer.bytes);
      }
      return progress_->drive({.operation = messages,
                               .transports = transports,
                               .deadline = Deadline::after(clock_, timeoutMs())});
    });
    lent_->takeBack(!status.ok(), 0);
  }
  guard_->calls().endExchange();
  return status.ok() ? status : guard_->fail(status);
}

std::optional<Status> Communicator::driveMessages() {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return std::nullopt;
  const Status may = guard_->mayBegin();
  const Status status = may.ok() ? withoutExceptions([&] { return progress_->driveMessages(); }) : may;
  if (status.ok()) return Status();
  lent_->takeBack(/*failed=*/true);
  return may.ok() ? guard_->fail(status) : status;
}

Result<std::vector<std::vector<std::byte>>> Communicator::allGather(std::span<const std::byte> mine,
                                                                    std::string_view what) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  HORING_TRY(guard_->mayBegin());
  auto gathered = [&] {
    const Away away = guard_->away();
    return control_->allGather(mine, Deadline::after(clock_, options_.config.init_timeout_ms), what);
  }();
  if (!gathered.ok()) return guard_->fail(gathered.status());
  return gathered;
}

Result<std::vector<std::vector<std::byte>>> Communicator::exchangeFacts(std::span<const std::byte> mine,
                                                                        int64_t timeout_ms) {
  return control_->allGather(mine, Deadline::after(clock_, timeout_ms));
}

Result<Communicator::Meeting> Communicator::meet(std::span<const int> members) {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns()) return guard_->occupied();
  const int host = members.front();
  const std::optional<UniqueId>& place = meeting_places_[static_cast<size_t>(host)];
  if (!place)
    return makeStatus(Code::kInvalidUsage,
                      "rank %d, which is to host the meeting, found no port or address for that when the "
                      "communicator was made",
                      host);
  Meeting meeting;
  if (host == options_.rank) {
    HORING_ASSIGN(const RootOptions root, meetingOptions());
    HORING_ASSIGN(meeting.root, RootService::start(root, *reserved_));
  }
  JoinOptions join;
  join.id = *place;
  join.rank =
      static_cast<int>(std::lower_bound(members.begin(), members.end(), options_.rank) - members.begin());
  join.ranks = static_cast<int>(members.size());
  join.timeout_ms = options_.config.init_timeout_ms;
  join.clock = &clock_;
  // An aborted communicator may still shrink.
  if (!aborted_.load(std::memory_order_relaxed)) join.abort = &aborted_;
  join.heartbeat_ms = options_.config.heartbeat_ms;
  join.log = log_;
  const Away away = guard_->away();
  HORING_ASSIGN(meeting.control, Control::join(join));
  return meeting;
}

// Both ends of a link are in the same first call.
Status Communicator::connect(PlannedOperation& planned, const Turn& turn) {
  LinksComingUp coming_up(options_.rank, *connector_, planned.links);
  HORING_TRY(progress_->drive({.operation = coming_up,
                               .sequence = turn.sequence,
                               .transports = planned.transports,
                               .deadline = turn.deadline}));
  planner_->bind(planned);
  noteMemory();
  return {};
}

Status Communicator::leave() {
  const ExclusiveUse exclusive = guard_->enter();
  if (!exclusive.owns())
    return makeStatus(Code::kInvalidUsage,
                      "rank %d: a collective is running in another thread; use horingCommAbort",
                      options_.rank);
  sayGoodbye();
  return {};
}

void Communicator::sayGoodbye() {
  guard_->leave();
  if (const DataMoved moved = dataMoved(); moved.sent_in_place + moved.sent_through_slots > 0)
    log_.info("comm",
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
                      options_.rank);
  HORING_TRY(guard_->mayBegin());
  sayGoodbye();
  return {};
}

const Selection& Communicator::selectionFor(const CallSpec& spec) const {
  return selector_->select(spec.collective, totalBytes(spec, options_.ranks));
}

void Communicator::chooseBy(SelectionTable table, std::string found_at) {
  selection_table_ = std::move(table);
  table_from_ = std::move(found_at);
  selector_ = std::make_unique<Selector>(makeSelector());
  prepared_.clear();
}

void Communicator::noteMemory() const {
  memory_bytes_ = connector_->memoryBytes() + planner_->memoryBytes() + point_to_point_->memoryBytes() +
                  tagged_messages_->memoryBytes();
}

uint64_t Communicator::memoryBytes() const {
  // Between calls the control thread may be driving transports.
  const ExclusiveUse exclusive = guard_->enter(Use::kLook);
  if (exclusive.owns()) noteMemory();
  return memory_bytes_;
}

}  // namespace horing
