// How a communicator runs a collective, and how it ends.
#include "comm/communicator.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <thread>
#include <utility>

#include "base/no_memory.h"
#include "comm/tagged_exchange.h"
#include "comm/total_bytes.h"
#include "control/root_service.h"
#include "cuda/adapter_memory.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

// How often a wait looks at the deadline, at abort() and at news of other ranks.
constexpr int64_t kLookAroundNs = 1'000'000;
// How often in rounds without a wait, so that endless progress does not hide an abort.
constexpr uint32_t kLookAroundRounds = 1024;
// ... where each round may read a megabyte of what a rank that gave up waits to have back.
constexpr uint32_t kInsideRounds = 8;
// Of a rank that is in no call, when it is asked why others wait. A call that begins meanwhile waits for them: for microseconds where
// nothing comes, for milliseconds where all that a late rank has been sent does.
constexpr int kServiceRounds = 16;
constexpr int64_t kGiveUpMs = 2000;
constexpr int kLongestBlockMs = 50;
// Links that come up wait for things that no descriptor announces (a peer's file, a retry).
constexpr int kConnectBlockMs = 2;
// Nothing announces either that a device has copied.
constexpr std::chrono::microseconds kCopyNap{20};
// A broken link is often the echo of another rank's death: how long to wait for word of the first cause.
constexpr int64_t kRootCauseMs = kReturnTryMs + 1000;
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
  if (!isForkedChild()) ExclusiveUse(use_, Use::kCall).keep();
  if (timeline_ && !isForkedChild()) writeTimeline();
  // A child that was forked must not close what its parent still talks through; it only drops its copies.
  if (control_ && !isForkedChild() && !left_ && control_->status().ok())
    control_->announceError(
        makeStatus(Code::kRemoteError, "rank %d aborted its communicator", options_.rank));
}

Status Communicator::occupied() const {
  return makeStatus(Code::kInvalidUsage,
                    "rank %d: another thread is in this communicator; one thread at a time may use it",
                    options_.rank);
}

Status Communicator::mayBegin() {
  if (error_.ok() && aborted_.load(std::memory_order_relaxed))
    return fail(makeStatus(Code::kInvalidUsage, "the communicator was aborted"));
  if (error_.ok() && left_)
    return makeStatus(Code::kInvalidUsage, "rank %d: the communicator was finalized", options_.rank);
  return error_;
}

Status Communicator::run(const Call& call) {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns()) return occupied();
  HORING_TRY(mayBegin());
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
  return withFlightRecord(record, ready != nullptr, [&](Deadline deadline) {
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

// Tiny calls have begun already, and do without a look at the clock when they end.
template <typename Run>
Status Communicator::withFlightRecord(FlightRecord record, bool is_tiny, const Run& body) {
  record.begun_ns = looked_ns_ = clock_.nowNs();
  calls_.recorder().begin(record);
  const Status status =
      withoutExceptions([&] { return body(Deadline::at(clock_, record.begun_ns, timeoutMs())); });
  const int64_t ended_ns = is_tiny ? looked_ns_ : clock_.nowNs();
  calls_.recorder().end(record.sequence, ended_ns, status.ok() ? Outcome::kDone : Outcome::kFailed);
  if (timeline_) timeline_->call(*calls_.recorder().find(record.sequence));
  return status.ok() ? status : fail(status);
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
  HORING_TRY(lookAround());
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
    status = withoutExceptions([&] { return asks ? control_->catchUp(turn.deadline) : lookAround(); });
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
    const Result<PlannedOperation*> prepared = planner_->prepare(call.collective, selection, call.root);
    if (!prepared.ok()) {
      watchdog_->suspect(turn.sequence, {{}, "begins its links"});
      return prepared.status();
    }
    PlannedOperation* const planned = prepared.value();
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
  return drive({.operation = *planned.operation,
                .transports = planned.transports,
                .sequence = turn.sequence,
                .deadline = turn.deadline,
                .lanes = planned.operation.get()});
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
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns()) return occupied();
  HORING_TRY(mayBegin());
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
  calls_.beginExchange();
  if (status.ok()) {
    const uint32_t transports = connector_->transportsOf(links);
    status = withoutExceptions([&] {
      for (const Transfer& transfer : transfers) {
        if (transfer.bytes < kInPlaceBytes) continue;
        const bool sends = transfer.direction == Transfer::Direction::kSend;
        lent_->lendRegistered(transports, sends ? transfer.input : transfer.output);
        if (!sends && !transfer.copier) lent_->lendOrdinary(transports, transfer.output, transfer.bytes);
      }
      return drive({.operation = messages,
                    .transports = transports,
                    .deadline = Deadline::after(clock_, timeoutMs()),
                    .links = &links,
                    .messages = &messages});
    });
    lent_->takeBack(!status.ok(), 0);
  }
  calls_.endExchange();
  return status.ok() ? status : fail(status);
}

std::optional<Status> Communicator::driveMessages() {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns()) return std::nullopt;
  const Status may = mayBegin();
  const Status status = !may.ok() ? may : withoutExceptions([&]() -> Status {
    HORING_TRY(openTagged());
    calls_.beginExchange();
    Status driven = drive({.operation = *tagged_,
                           .deadline = Deadline::after(clock_, timeoutMs()),
                           .links = &tagged_->links(),
                           .messages = tagged_messages_.get()});
    calls_.endExchange();
    return driven;
  });
  if (status.ok()) return Status();
  lent_->takeBack(/*failed=*/true);
  return may.ok() ? fail(status) : status;
}

bool Communicator::drivesMessages() const {
  return tagged_ && messages_.load(std::memory_order_relaxed)->isOwnThread();
}

Status Communicator::openTagged() {
  // acquire: pairs with the release in setMessages().
  MessageSource* const source = messages_.load(std::memory_order_acquire);
  if (tagged_ || !source || !source->isOwnThread()) return {};
  HORING_TRY(waiter_->watch(source->wakeFd()));
  tagged_ = std::make_unique<TaggedExchange>(TaggedExchange::Parts{.messages = *tagged_messages_,
                                                                   .connector = *connector_,
                                                                   .lent = *lent_,
                                                                   .clock = clock_,
                                                                   .rank = options_.rank,
                                                                   .ranks = options_.ranks,
                                                                   .timeout_ms = timeout_ms_},
                                             *source);
  return {};
}

Result<std::vector<std::vector<std::byte>>> Communicator::allGather(std::span<const std::byte> mine,
                                                                    std::string_view what) {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns()) return occupied();
  HORING_TRY(mayBegin());
  auto gathered = [&] {
    const Away away(use_);
    return control_->allGather(mine, Deadline::after(clock_, options_.config.init_timeout_ms), what);
  }();
  if (!gathered.ok()) return fail(gathered.status());
  return gathered;
}

Result<std::vector<std::vector<std::byte>>> Communicator::exchangeFacts(std::span<const std::byte> mine,
                                                                        int64_t timeout_ms) {
  return control_->allGather(mine, Deadline::after(clock_, timeout_ms));
}

Result<Communicator::Meeting> Communicator::meet(std::span<const int> members) {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns()) return occupied();
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
  const Away away(use_);
  HORING_ASSIGN(meeting.control, Control::join(join));
  return meeting;
}

// Links to new peers come up while both ends are in the same first call.
Status Communicator::connect(PlannedOperation& planned, const Turn& turn) {
  const auto obstacle = [&] {
    const std::string missing = connector_->describeMissing(planned.links);
    return Obstacle{connector_->missing(planned.links), "connects to " + missing};
  };
  waiter_->progressed();
  while (!planner_->connected(planned)) {
    // Whoever is waited for may first wait for a message.
    HORING_TRY(openTagged());
    if (drivesMessages()) tagged_->poll();
    if (Status moved = connector_->progress(planned.transports | (tagged_ ? tagged_->transports() : 0));
        !moved.ok()) {
      watchdog_->suspect(turn.sequence, obstacle());
      return moved;
    }
    if (planner_->connected(planned)) break;
    HORING_TRY(lookAround());
    watchdog_->look(turn.sequence, waiter_->idleNs(clock_.nowNs()), obstacle);
    if (turn.deadline.passed()) {
      const Status late =
          makeStatus(Code::kTimeout,
                     "rank %d could not connect to %s within %lld ms (HORING_TIMEOUT_MS): has every rank "
                     "called the same collective? is a "
                     "firewall between them, or HORING_SOCKET_IFNAME wrong?",
                     options_.rank, connector_->describeMissing(planned.links).c_str(),
                     static_cast<long long>(timeoutMs()));
      return watchdog_->overdue(turn.sequence, obstacle(), timeoutMs(), late, aborted_);
    }
    if (waiter_->idle(clock_.nowNs()) == Waiter::Step::kAgain) continue;
    HORING_TRY(sleep(nullptr, kConnectBlockMs));
  }
  planner_->bind(planned);
  return {};
}

Status Communicator::drive(const Drive& drive) {
  Driven& operation = drive.operation;
  const bool is_exchange = drive.sequence == kExchange;
  const bool is_tagged = &operation == tagged_.get();
  const auto transports = [&] { return drive.transports | (tagged_ ? tagged_->transports() : 0); };
  const auto deadline = [&] { return is_tagged ? tagged_->deadline() : drive.deadline; };
  const auto obstacle = [&]() -> Obstacle {
    if (!is_exchange) return {operation.waitsFor(), operation.describeProgress()};
    return {drive.messages->waitsFor(Transfer::Direction::kReceive), operation.describeProgress(),
            drive.messages->waitsFor(Transfer::Direction::kSend)};
  };
  int64_t next_look_ns = 0;  // nothing to look for before the clock has been looked at
  Timeline* timeline = drive.lanes ? timeline_.get() : nullptr;
  const uint32_t look_rounds = drive.lanes && drive.lanes->readsPeers() ? kInsideRounds : kLookAroundRounds;
  if (timeline) timeline->lanesBegin(*drive.lanes);
  waiter_->progressed();
  for (uint32_t round = 1;; ++round) {
    // First, so that what can be sent is on its way when the transports are driven.
    bool progressed = operation.poll();
    if (timeline && progressed) timeline->lanesWentOn(*drive.lanes);
    if (operation.done()) return {};
    if (messages_.load(std::memory_order_relaxed) && !is_tagged) [[unlikely]] {
      HORING_TRY(openTagged());
      if (drivesMessages()) progressed = tagged_->poll() || progressed;
      if (tagged_ && !tagged_->status().ok()) return tagged_->status();
    }
    if (const Status& own = operation.status(); !own.ok()) [[unlikely]] {
      const bool others_disagree = !is_exchange && own.code() == Code::kInvalidUsage;
      return others_disagree ? watchdog_->mismatch(drive.sequence, obstacle(), own, aborted_) : own;
    }
    if (Status moved = connector_->progress(transports()); !moved.ok()) [[unlikely]] {
      if (!is_exchange) watchdog_->suspect(drive.sequence, obstacle());
      return moved;
    }
    if (progressed) {
      waiter_->progressed();
      watchdog_->wentOn();
    }
    if (round % look_rounds != 0 && (progressed || waiter_->looksAgain())) continue;

    const int64_t now_ns = looked_ns_ = clock_.nowNs();
    if (next_look_ns == 0) next_look_ns = now_ns + kLookAroundNs;
    if (now_ns >= next_look_ns) {
      HORING_TRY(lookAround());
      // The program may have other messages to begin before it waits for these: ranks that wait for each other are no circle.
      if (!is_tagged) watchdog_->look(drive.sequence, waiter_->idleNs(now_ns), obstacle);
      if (drivesMessages() && tagged_->deadline().passed()) return overdue(*tagged_);
      if (deadline().passed() && !(operation.awaitsCopies() && operation.waitsFor().empty()))
        return watchdog_->overdue(drive.sequence, obstacle(), timeoutMs(), timedOut(drive), aborted_);
      next_look_ns = now_ns + kLookAroundNs;
    }
    if (progressed || waiter_->idle(now_ns) == Waiter::Step::kAgain) continue;
    if (operation.awaitsCopies()) {
      std::this_thread::sleep_for(kCopyNap);
      continue;
    }
    const bool connects = drive.links && !connector_->established(*drive.links);
    const bool nobody_rings = connects || (drivesMessages() && tagged_->waitsForTurn());
    HORING_TRY(sleep(&operation,
                     std::min(nobody_rings ? kConnectBlockMs : kLongestBlockMs, deadline().remainingMs())));
  }
}

Status Communicator::overdue(const TaggedExchange& tagged) {
  calls_.beginExchange();
  const Obstacle obstacle{tagged_messages_->waitsFor(Transfer::Direction::kReceive),
                          tagged.describeProgress(), tagged_messages_->waitsFor(Transfer::Direction::kSend)};
  const Status late =
      makeStatus(Code::kTimeout,
                 "rank %d: a message with a tag did not get through within %lld ms (HORING_TIMEOUT_MS): %s. "
                 "A rank that is waited "
                 "for is stopped, or never made its part",
                 options_.rank, static_cast<long long>(timeoutMs()), tagged.describeProgress().c_str());
  const Status verdict = watchdog_->overdue(kExchange, obstacle, timeoutMs(), late, aborted_);
  calls_.endExchange();
  return verdict;
}

Status Communicator::timedOut(const Drive& drive) const {
  const std::string what =
      drive.sequence == kExchange
          ? std::string("a group of sends and receives")
          : formatString("collective #%llu", static_cast<unsigned long long>(drive.sequence));
  return makeStatus(
      Code::kTimeout,
      "rank %d: %s did not complete within %lld ms (HORING_TIMEOUT_MS): %s. A rank that is waited "
      "for is stopped, or never made this call",
      options_.rank, what.c_str(), static_cast<long long>(timeoutMs()),
      drive.operation.describeProgress().c_str());
}

// Blocks until a peer rings, unless something happened while the peers were being asked to. All transports take part,
// also those that the operation does not use: the waiter watches them all, and one that is not looked after (a timer, a
// stranger at the door) would not let it sleep.
Status Communicator::sleep(Driven* operation, int timeout_ms) {
  const uint32_t all = connector_->allTransports();
  connector_->beginWait(all);
  Status status = connector_->progress(all);
  const bool has_messages = tagged_.get() != operation && drivesMessages();
  const bool idle = status.ok() && (!operation || (!operation->poll() && !operation->done())) &&
                    !(has_messages && tagged_->poll());
  if (idle) {
    const int64_t asleep_ns = timeline_ ? clock_.nowNs() : 0;
    waiter_->block(std::chrono::milliseconds(timeout_ms));
    if (timeline_) timeline_->slept(asleep_ns);
  }
  connector_->endWait(all);
  return status;
}

// Aborts, lost ranks, errors that other ranks announced.
Status Communicator::lookAround() {
  if (aborted_.load(std::memory_order_relaxed))
    return makeStatus(Code::kInvalidUsage, "rank %d: the communicator was aborted", options_.rank);
  Status news = control_->status();
  if (const Status why = buffer_users_->givenUp(); news.ok() && !why.ok())
    news = makeStatus(Code::kRemoteError, "%s", why.message().c_str());
  // The rendezvous has closed in good order: its end of the connection stays readable for ever.
  if (watched_control_fd_ >= 0 && control_->fd() < 0) waiter_->forget(std::exchange(watched_control_fd_, -1));
  return news;
}

// Between calls nobody drives the transports, and what was lost on its way is not sent again, nor a connection that broke made
// again. So a rank that is asked because others wait looks after that; whoever is inside a call and not away does so anyhow.
void Communicator::serveOthers() {
  Use before = Use::kNone;
  while (!use_.compare_exchange_weak(before, Use::kLook, std::memory_order_acquire)) {
    if (before == Use::kCall) return;
    if (before != Use::kLook) continue;
    ::sched_yield();
    before = Use::kNone;
  }
  if (!left_ && error_.ok()) driveForOthers();
  use_.store(before, std::memory_order_release);
}

void Communicator::driveForOthers() {
  const uint32_t all = connector_->allTransports();
  connector_->beginWait(all);
  // A link that fails tells the next call; so does memory that runs out.
  [[maybe_unused]] const Status moved = withoutExceptions([&]() -> Status {
    for (int round = 0; round < kServiceRounds; ++round) HORING_TRY(connector_->progress(all));
    return {};
  });
  connector_->endWait(all);
}

Status Communicator::fail(Status status) {
  return error_.ok() ? stick(rootCause(std::move(status))) : error_;
}

// Tells the others; needs no memory.
Status Communicator::stick(Status error) {
  error_ = std::move(error);
  if (control_->status().ok()) control_->announceError(error_);
  log_.warn("comm", "%s: %s", codeName(error_.code()), error_.message().c_str());
  return error_;
}

Status Communicator::breakOff(Status why) {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (exclusive.owns()) return fail(std::move(why));
  announce(why);
  return why;
}

Status Communicator::rootCause(Status status) {
  if (status.code() != Code::kRemoteError) return status;
  const Deadline deadline = Deadline::after(clock_, kRootCauseMs);
  while (control_->status().ok() && !deadline.passed() && !aborted_.load(std::memory_order_relaxed)) {
    pollfd entry{control_->fd(), POLLIN, 0};
    [[maybe_unused]] const int ready = ::poll(&entry, 1, std::min(deadline.remainingMs(), kLongestBlockMs));
  }
  return control_->status().ok() ? status : control_->status();
}

Status Communicator::leave() {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns())
    return makeStatus(Code::kInvalidUsage,
                      "rank %d: a collective is running in another thread; use horingCommAbort",
                      options_.rank);
  sayGoodbye();
  return {};
}

void Communicator::sayGoodbye() {
  if (error_.ok() && !aborted_) {
    // Who comes late, and disagrees about the last call, shall hear so.
    for (const CallLog* log : {&calls_, &launches_})
      if (const uint64_t begun = log->recorder().begun(); begun > 0)
        control_->reportCall(log->report(log->first() + begun - 1));
    control_->leave();
  }
  if (const DataMoved moved = dataMoved(); moved.sent_in_place + moved.sent_through_slots > 0)
    log_.info("comm",
              "over RDMA and TCP: sent %" PRIu64 " bytes in place, %" PRIu64
              " through slots; received %" PRIu64 " in place, %" PRIu64 " through slots",
              moved.sent_in_place, moved.sent_through_slots, moved.received_in_place,
              moved.received_through_slots);
  left_ = true;
}

Status Communicator::finalize() {
  ExclusiveUse exclusive(use_, Use::kCall);
  if (!exclusive.owns()) return occupied();
  if (error_.ok() && left_)
    return makeStatus(Code::kInvalidArgument, "rank %d: the communicator was finalized before",
                      options_.rank);
  HORING_TRY(mayBegin());
  sayGoodbye();
  return {};
}

void Communicator::abort() {
  aborted_.store(true, std::memory_order_relaxed);
  // The thread that is inside notices within a look-around or a block.
  while (use_.load(std::memory_order_acquire) != Use::kNone) ::poll(nullptr, 0, 1);
}

Status Communicator::asyncError() {
  ExclusiveUse exclusive(use_, Use::kLook);
  // The call that is inside will return the error.
  if (!exclusive.owns()) return {};
  if (error_.ok()) {
    Status news = lookAround();
    if (!news.ok()) return stick(std::move(news));
  }
  return error_;
}

const Selection& Communicator::selectionFor(const CallSpec& spec) const {
  return selector_->select(spec.collective, totalBytes(spec, options_.ranks));
}

uint64_t Communicator::memoryBytes() const {
  const ExclusiveUse exclusive(use_,
                               Use::kLook);  // between calls the control thread may be driving transports
  return connector_->memoryBytes() + planner_->memoryBytes() + point_to_point_->memoryBytes() +
         tagged_messages_->memoryBytes();
}

}  // namespace horing
