#include "comm/progress/progress.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/no_memory.h"
#include "base/pause.h"

namespace horing {

namespace {

// How often a wait looks at the deadline, at abort() and at news of other ranks. No descriptor announces these.
constexpr int64_t kLookAroundNs = 1'000'000;
constexpr std::chrono::milliseconds kLongestBlock{50};
// Where something is due that no descriptor announces: a peer's file, a retry, a turn on a stream.
constexpr std::chrono::milliseconds kBriefBlock{2};
// Nothing announces either that a device has copied.
constexpr std::chrono::microseconds kCopyNap{20};
// What a rank does for others between its calls: rounds without puts, and how long puts may prolong it. A call that begins meanwhile waits.
constexpr int kServiceRounds = 16;
constexpr int64_t kLongestServiceNs = 1'000'000;
// Waits of messages that are so long are recorded.
constexpr int64_t kRecordedNs = 200'000'000;
constexpr int64_t kNeverMs = INT64_MAX / 4'000'000;

std::chrono::microseconds longestSleep(Pause pause, int64_t idle_ns) {
  if (pause == Pause::kForStream) return napAfter(idle_ns);
  return pause == Pause::kBriefly ? kBriefBlock : kLongestBlock;
}

}  // namespace

Progress::Progress(const Parts& parts, const ExchangeBeside::Parts& beside, WaitPolicy policy)
    : parts_(parts), waiter_(policy), background_(beside, waiter_) {
  for (const auto& transport : parts.connector.transports())
    transport_places_.push_back(waiter_.watch(transport->waitFd()));
}

Status Progress::drive(const Drive& drive) {
  Driven& operation = drive.operation;
  Watchdog& watchdog = parts_.guard.watchdog();
  uint32_t rounds_to_look = 0;
  int64_t next_look_ns = 0;  // nothing to look for before the clock has been looked at
  if (parts_.timeline) parts_.timeline->lanesBegin(operation.laneSteps());
  waiter_.progressed();
  served_ns_ = 0;
  for (;;) {
    // First, so that what can be sent is on its way when the transports are driven.
    bool progressed = poll(operation);
    if (operation.done()) return {};
    if (const Status& own = operation.status(); !own.ok()) [[unlikely]] {
      recordWaiting(operation, parts_.clock.nowNs());
      return watchdog.failed(
          operation.sequence(), [&] { return operation.obstacle(); }, own);
    }
    uint32_t transports = drive.transports;
    if (background_.mayHaveAny()) [[unlikely]] {
      progressed = background_.poll(operation.covers()) || progressed;
      HORING_TRY(background_.status());
      transports |= background_.transports();
    }
    if (Status moved = parts_.connector.progress(transports); !moved.ok()) [[unlikely]] {
      recordWaiting(operation, parts_.clock.nowNs());
      watchdog.suspect(operation.sequence(), operation.obstacle());
      return moved;
    }
    if (progressed) {
      waiter_.progressed();
      watchdog.wentOn();
    }
    if (rounds_to_look == 0) rounds_to_look = operation.roundsPerLook();
    if (--rounds_to_look > 0 && (progressed || waiter_.looksAgain())) continue;

    const int64_t now_ns = parts_.clock.nowNs();
    looked(now_ns);
    if (next_look_ns == 0) {
      next_look_ns = now_ns + kLookAroundNs;
      counted_ns_ = now_ns;
    }
    if (now_ns >= next_look_ns) {
      countWaits(waitsOf(operation), now_ns);
      HORING_TRY(checkOnIt(drive, now_ns));
      next_look_ns = now_ns + kLookAroundNs;
    }
    if (progressed || waiter_.idle(now_ns) == Waiter::Step::kAgain) continue;
    const Pause pause = std::max(operation.pause(), background_.pause());
    if (pause == Pause::kForCopies) {
      std::this_thread::sleep_for(kCopyNap);
      continue;
    }
    const std::chrono::milliseconds left(drive.deadline.remainingMs());
    HORING_TRY(
        sleep(drive, std::min<std::chrono::microseconds>(longestSleep(pause, waiter_.idleNs(now_ns)), left)));
  }
}

void Progress::looked(int64_t now_ns) {
  looked_ns_ = now_ns;
  parts_.guard.calls().messages().setNow(now_ns);
}

bool Progress::poll(Driven& operation) {
  if (parts_.timeline) parts_.guard.calls().messages().setNow(parts_.clock.nowNs());
  const bool progressed = operation.poll();
  if (progressed && parts_.timeline) parts_.timeline->lanesWentOn(operation.laneSteps());
  return progressed;
}

// What is under way on a slow path keeps no sender waiting where the system's buffers take it.
PeerWaits Progress::waitsOf(const Driven& operation) const {
  PeerWaits waits = operation.waits();
  parts_.connector.addUnderWay(waits);
  return waits;
}

// The time since the last look, or since it slept.
void Progress::countWaits(const PeerWaits& waits, int64_t now_ns) {
  parts_.guard.calls().waitTimes().add(waits, now_ns - counted_ns_);
  counted_ns_ = now_ns;
}

// At intervals: checks for events that end the operation, and reports waiting to the rendezvous.
Status Progress::checkOnIt(const Drive& drive, int64_t now_ns) {
  Driven& operation = drive.operation;
  const int64_t since_ns = now_ns - waiter_.idleNs(now_ns);
  if (now_ns - since_ns >= kRecordedNs) recordWaiting(operation, since_ns);
  HORING_TRY(lookAround());
  if (operation.tellsOthers()) {
    parts_.guard.watchdog().look(operation.sequence(), waiter_.idleNs(now_ns),
                                 [&] { return obstacleOf(operation, now_ns); });
  } else {
    tellOfLackOfRoom(waiter_.idleNs(now_ns));
  }
  HORING_TRY(checkOnMessages(since_ns));
  if (!drive.deadline.passed()) return {};
  // Copies have deadlines of their own.
  const bool awaits_copies = operation.pause() == Pause::kForCopies && operation.obstacle().isNobody();
  const int64_t timeout_ms = drive.timeout_ms > 0 ? drive.timeout_ms : parts_.timeout_ms.load();
  return awaits_copies ? Status() : overdue(operation, since_ns, timeout_ms);
}

void Progress::recordWaiting(Driven& operation, int64_t since_ns) {
  operation.recordWaiting(since_ns);
  background_.recordWaiting(since_ns);
}

// Peers take puts between their calls only when they hear that a rank waits.
void Progress::tellOfLackOfRoom(int64_t idle_ns) {
  if (!background_.waitsForRoom()) return;
  parts_.guard.watchdog().look(std::nullopt, idle_ns, [&] { return background_.obstacle(); });
}

Status Progress::checkOnMessages(int64_t since_ns) {
  ExchangeBeside* const messages = background_.exchange();
  if (!messages || !messages->deadline().passed()) return {};
  CallLog& calls = parts_.guard.calls();
  calls.beginExchange();
  const Status verdict = overdue(*messages, since_ns, parts_.timeout_ms);
  calls.endExchange();
  return verdict;
}

// Messages lost with a connection are sent again once it is re-established. Until then they do not count as never sent, and the
// rank must not be judged as stuck (control/wait_graph.h).
Obstacle Progress::obstacleOf(const Driven& operation, int64_t now_ns) {
  Obstacle obstacle = operation.obstacle();
  if (parts_.connector.isMending()) mended_ns_ = now_ns;
  obstacle.since_ns = std::max(mended_ns_, now_ns - waiter_.idleNs(now_ns));
  return obstacle;
}

// The flight record is written while the verdict is waited for.
Status Progress::overdue(Driven& operation, int64_t since_ns, int64_t timeout_ms) {
  recordWaiting(operation, since_ns);
  const Obstacle obstacle = operation.obstacle();
  const Status own =
      makeStatus(Code::kTimeout,
                 "rank %d: %s did not complete within %lld ms (HORING_TIMEOUT_MS): %s. A rank that is waited "
                 "for is stopped, cannot be reached, or never made this call",
                 parts_.guard.rank(), operation.name().c_str(), static_cast<long long>(timeout_ms),
                 obstacle.text.c_str());
  return parts_.guard.watchdog().overdue(operation.sequence(), obstacle, timeout_ms, own);
}

Status Progress::driveBeside() {
  ExchangeBeside* const messages = background_.exchange();
  HORING_CHECK(messages != nullptr);
  CallLog& calls = parts_.guard.calls();
  calls.beginExchange();
  // Each of them has its own deadline.
  Status driven = drive({.operation = *messages, .deadline = Deadline::after(parts_.clock, kNeverMs)});
  calls.endExchange();
  return driven;
}

// No bells: it comes again before long.
Status Progress::serveBeside() {
  const int64_t now_ns = parts_.clock.nowNs();
  parts_.guard.calls().messages().setNow(now_ns);
  HORING_TRY(parts_.connector.progress(background_.transports()));
  const bool progressed = background_.poll(Covers::kNone);
  HORING_TRY(background_.status());
  if (progressed) parts_.guard.watchdog().wentOn();
  if (progressed || served_ns_ == 0) served_ns_ = now_ns;
  if (progressed || now_ns < next_service_look_ns_) return {};  // what has arrived is not late
  next_service_look_ns_ = now_ns + kLookAroundNs;
  if (now_ns - served_ns_ >= kRecordedNs) background_.recordWaiting(served_ns_);
  HORING_TRY(lookAround());
  tellOfLackOfRoom(now_ns - served_ns_);
  return checkOnMessages(served_ns_);
}

// Blocks until a peer rings, unless something happened while peers were asked to ring. All transports take part, including unused
// ones: the waiter watches them all, and a pending event of one (a timer, an unproven connection) would keep it awake.
Status Progress::sleep(const Drive& drive, std::chrono::microseconds timeout) {
  Driven& operation = drive.operation;
  Connector& connector = parts_.connector;
  const uint32_t all = connector.allTransports();
  connector.beginWait(all);
  Status status = connector.progress(all);
  const bool progressed = status.ok() && poll(operation);
  const bool is_idle =
      status.ok() && !progressed && !operation.done() && !background_.poll(operation.covers());
  if (is_idle) {
    const PeerWaits waits = waitsOf(operation);
    const int64_t asleep_ns = parts_.clock.nowNs();
    counted_ns_ = std::max(counted_ns_, asleep_ns - waiter_.idleNs(asleep_ns));
    // Some have no descriptor before they are needed.
    for (size_t i = 0; i < transport_places_.size(); ++i)
      waiter_.replace(transport_places_[i], connector.transports()[i]->waitFd());
    waiter_.block(timeout);
    looked(parts_.clock.nowNs());
    countWaits(waits, looked_ns_);
    if (parts_.timeline) parts_.timeline->slept(asleep_ns);
  }
  connector.endWait(all);
  return status;
}

Status Progress::lookAround() {
  return parts_.guard.news();
}

bool Progress::driveForOthers() {
  Connector& connector = parts_.connector;
  const uint32_t all = connector.allTransports();
  const int64_t begun_ns = parts_.clock.nowNs(), end_ns = begun_ns + kLongestServiceNs;
  parts_.guard.calls().messages().setNow(begun_ns);
  bool took_puts = false;
  connector.beginWait(all);
  // What fails here, also for lack of memory, ends the next call: until then, peers still need the other links.
  [[maybe_unused]] const Status served = withoutExceptions([&] {
    for (int rounds_left = kServiceRounds; rounds_left > 0; --rounds_left) {
      [[maybe_unused]] const Status moved = connector.progress(all);
      if (!background_.poll(Covers::kNone)) continue;
      took_puts = true;
      if (parts_.clock.nowNs() < end_ns) rounds_left = kServiceRounds + 1;
    }
  });
  connector.endWait(all);
  return took_puts;
}

}  // namespace horing
