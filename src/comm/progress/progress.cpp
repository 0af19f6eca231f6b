#include "comm/progress/progress.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/no_memory.h"

namespace horing {

namespace {

// How often a wait looks at the deadline, at abort() and at news of other ranks.
constexpr int64_t kLookAroundNs = 1'000'000;
// Of a rank that is in no call, when it is asked why others wait. A call that begins meanwhile waits for them: for microseconds where
// nothing comes, for milliseconds where all that a late rank has been sent does.
constexpr int kServiceRounds = 16;
constexpr int kLongestBlockMs = 50;
// Where something is due that no descriptor announces: a peer's file, a retry, a turn on a stream.
constexpr int kBriefBlockMs = 2;
// Nothing announces either that a device has copied.
constexpr std::chrono::microseconds kCopyNap{20};
constexpr int64_t kNeverMs = INT64_MAX / 4'000'000;

}  // namespace

Result<std::unique_ptr<Progress>> Progress::create(const Parts& parts, const TaggedExchange::Parts& tagged,
                                                   WaitPolicy policy) {
  const int control_fd = parts.control.fd();
  std::vector<int> fds = {control_fd};
  for (const auto& transport : parts.connector.transports()) fds.push_back(transport->waitFd());
  HORING_ASSIGN(Waiter waiter, Waiter::create(policy, fds));
  return std::unique_ptr<Progress>(new Progress(parts, tagged, std::move(waiter), control_fd));
}

Status Progress::drive(const Drive& drive) {
  Driven& operation = drive.operation;
  Watchdog& watchdog = parts_.guard.watchdog();
  Timeline* const timeline = parts_.timeline && operation.laneCount() > 0 ? parts_.timeline : nullptr;
  uint32_t rounds_to_look = 0;
  int64_t next_look_ns = 0;  // nothing to look for before the clock has been looked at
  if (timeline) timeline->lanesBegin(operation);
  waiter_.progressed();
  for (;;) {
    // First, so that what can be sent is on its way when the transports are driven.
    bool progressed = operation.poll();
    if (timeline && progressed) timeline->lanesWentOn(operation);
    if (operation.done()) return {};
    TaggedExchange* beside = nullptr;
    if (messages_.load(std::memory_order_relaxed)) [[unlikely]] {
      HORING_ASSIGN(beside, messagesBeside());
      if (beside && beside != &operation) {
        progressed = beside->poll() || progressed;
        HORING_TRY(beside->status());
      }
    }
    if (const Status& own = operation.status(); !own.ok()) [[unlikely]] {
      const bool others_disagree = own.code() == Code::kInvalidUsage;
      return others_disagree ? watchdog.mismatch(drive.sequence, operation.obstacle(), own) : own;
    }
    if (Status moved = parts_.connector.progress(transportsOf(drive)); !moved.ok()) [[unlikely]] {
      watchdog.suspect(drive.sequence, operation.obstacle());
      return moved;
    }
    if (progressed) {
      waiter_.progressed();
      watchdog.wentOn();
    }
    if (rounds_to_look == 0) rounds_to_look = operation.roundsPerLook();
    if (--rounds_to_look > 0 && (progressed || waiter_.looksAgain())) continue;

    const int64_t now_ns = looked_ns_ = parts_.clock.nowNs();
    if (next_look_ns == 0) next_look_ns = now_ns + kLookAroundNs;
    if (now_ns >= next_look_ns) {
      HORING_TRY(checkOnIt(drive, beside, now_ns));
      next_look_ns = now_ns + kLookAroundNs;
    }
    if (progressed || waiter_.idle(now_ns) == Waiter::Step::kAgain) continue;
    const Pause pause = operation.pause();
    if (pause == Pause::kForCopies) {
      std::this_thread::sleep_for(kCopyNap);
      continue;
    }
    const bool is_brief = pause == Pause::kBriefly || (beside && beside->pause() == Pause::kBriefly);
    HORING_TRY(sleep(operation, beside,
                     std::min(is_brief ? kBriefBlockMs : kLongestBlockMs, drive.deadline.remainingMs())));
  }
}

// Once in a while: whether something ends the operation, or others are to hear that it waits.
Status Progress::checkOnIt(const Drive& drive, TaggedExchange* beside, int64_t now_ns) {
  const Driven& operation = drive.operation;
  HORING_TRY(lookAround());
  if (operation.tellsOthers())
    parts_.guard.watchdog().look(drive.sequence, waiter_.idleNs(now_ns),
                                 [&] { return operation.obstacle(); });
  if (beside && beside->deadline().passed()) {
    CallLog& calls = parts_.guard.calls();
    calls.beginExchange();
    const Status verdict = overdue(*beside, kExchange);
    calls.endExchange();
    return verdict;
  }
  if (!drive.deadline.passed()) return {};
  // Copies have deadlines of their own.
  const bool awaits_copies = operation.pause() == Pause::kForCopies && operation.obstacle().isNobody();
  return awaits_copies ? Status() : overdue(operation, drive.sequence);
}

Status Progress::overdue(const Driven& operation, uint64_t sequence) {
  const int64_t timeout_ms = parts_.timeout_ms;
  return parts_.guard.watchdog().overdue(sequence, operation.obstacle(), timeout_ms,
                                         operation.overdue(timeout_ms));
}

Status Progress::driveMessages() {
  HORING_ASSIGN(TaggedExchange* const messages, messagesBeside());
  CallLog& calls = parts_.guard.calls();
  calls.beginExchange();
  // Each of them has a deadline of its own.
  Status driven = drive({.operation = *messages, .deadline = Deadline::after(parts_.clock, kNeverMs)});
  calls.endExchange();
  return driven;
}

Result<TaggedExchange*> Progress::messagesBeside() {
  // acquire: pairs with the release in setMessages().
  MessageSource* const source = messages_.load(std::memory_order_acquire);
  if (!source->isOwnThread()) return nullptr;
  if (!tagged_) {
    HORING_TRY(waiter_.watch(source->wakeFd()));
    tagged_ = std::make_unique<TaggedExchange>(tagged_parts_, *source);
  }
  return tagged_.get();
}

// Blocks until a peer rings, unless something happened while the peers were being asked to. All transports take part,
// also those that the operation does not use: the waiter watches them all, and one that is not looked after (a timer, a
// stranger at the door) would not let it sleep.
Status Progress::sleep(Driven& operation, TaggedExchange* beside, int timeout_ms) {
  Connector& connector = parts_.connector;
  const uint32_t all = connector.allTransports();
  connector.beginWait(all);
  Status status = connector.progress(all);
  const bool is_idle = status.ok() && !operation.poll() && !operation.done() &&
                       !(beside && beside != &operation && beside->poll());
  if (is_idle) {
    const int64_t asleep_ns = parts_.timeline ? parts_.clock.nowNs() : 0;
    waiter_.block(std::chrono::milliseconds(timeout_ms));
    if (parts_.timeline) parts_.timeline->slept(asleep_ns);
  }
  connector.endWait(all);
  return status;
}

Status Progress::lookAround() {
  // Its end of the connection stays readable for ever.
  if (watched_control_fd_ >= 0 && parts_.control.fd() < 0)
    waiter_.forget(std::exchange(watched_control_fd_, -1));
  return parts_.guard.news();
}

void Progress::driveForOthers() {
  Connector& connector = parts_.connector;
  const uint32_t all = connector.allTransports();
  connector.beginWait(all);
  // A link that fails tells the next call; so does memory that runs out.
  [[maybe_unused]] const Status moved = withoutExceptions([&]() -> Status {
    for (int round = 0; round < kServiceRounds; ++round) HORING_TRY(connector.progress(all));
    return {};
  });
  connector.endWait(all);
}

}  // namespace horing
