#pragma once
// Exclusive use of a communicator, its records, and the error that ends it.
#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/no_memory.h"
#include "base/status.h"
#include "comm/guard/exclusive_use.h"
#include "comm/guard/records.h"
#include "comm/guard/watchdog.h"
#include "comm/reach/buffer_users.h"
#include "control/call_log.h"
#include "control/control.h"

namespace horing {

// The first error sticks. One thread at a time is inside, in a call or for progress between calls; abort(), asyncError() and news(): any
// thread.
class Guard {
 public:
  struct Parts {
    int rank;
    Control& control;
    const Clock& clock;
    const Log& log;
    BufferUsers& buffer_users;
    std::atomic<bool>& aborted;
    Records& records;
  };
  explicit Guard(const Parts& parts)
      : parts_(parts),
        watchdog_(parts.records.calls(), parts.control, parts.clock, parts.log, parts.aborted) {}

  // Enters for a call, or for progress between calls; check owns() of the result.
  ExclusiveUse enter(Use use = Use::kCall) const {
    return isWithin() ? ExclusiveUse(use_, ExclusiveUse::Within()) : ExclusiveUse(use_, use);
  }
  // In a call: while it lives, what this thread calls is a part of that call.
  class Within {
   public:
    explicit Within(Guard& guard) : guard_(guard) {
      guard_.within_.store(thisThread(), std::memory_order_relaxed);
    }
    ~Within() { guard_.within_.store(nullptr, std::memory_order_relaxed); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    Guard& guard_;
  };
  bool isWithin() const {
    const void* const thread = within_.load(std::memory_order_relaxed);
    return thread && thread == thisThread();
  }
  // The error for a result that does not own the communicator.
  Status occupied() const;
  // Call it first in a call.
  Status mayBegin();
  // In a call: the scope in which it waits for the rendezvous.
  Away away() { return Away(use_); }
  // In a call: as Control::allGather().
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte> mine, int64_t timeout_ms,
                                                        std::string_view what);

  // Called inside: waits for the root cause of `status`; the root cause, or else `status`, sticks. Returns the sticky error.
  Status fail(Status status);
  // For a step before a call that failed with `why`: the error sticks and is announced to the other ranks. Returns the sticky error, or
  // `why` while another thread is in a call, which then fails.
  Status breakOff(Status why);
  // The reason to end a call early: abort(), a lost rank, an error announced by another rank.
  Status news() const;
  // The sticky error; checks for news if no thread is inside.
  Status asyncError();
  // Makes the running call and every later call fail. Returns when no call is running.
  void abort();
  // Shuts down in good order, while no other thread is inside. Later calls are refused.
  void leave();
  bool hasLeft() const { return left_; }
  // Called inside: no error so far, and not left.
  bool isWell() const { return error_.ok() && !left_; }
  // No thread can enter any more.
  void close() { ExclusiveUse(use_, Use::kCall).keepForever(); }
  // Runs `look` unless a call is inside, which does the same work itself; also runs while a call is away.
  template <typename Look>
  void lookBetweenCalls(const Look& look);

  // Runs `body(Deadline)` as a recorded and timed call; an error sticks. `looked_ns` is the time at which the progress loop last read the
  // clock. A call that `has_begun` is so short that this counts as its end, without reading the clock again.
  template <typename Body>
  Status recorded(FlightRecord record, int64_t timeout_ms, int64_t* looked_ns, bool has_begun,
                  const Body& body);

  int rank() const { return parts_.rank; }
  Watchdog& watchdog() { return watchdog_; }
  CallLog& calls() { return parts_.records.calls(); }

 private:
  // An address of its own for each thread.
  static const void* thisThread() {
    static thread_local const char kThread = 0;
    return &kThread;
  }
  Status stick(Status error);
  Status rootCause(Status status) const;

  Parts parts_;
  mutable std::atomic<Use> use_{Use::kNone};
  std::atomic<const void*> within_{nullptr};  // the thread that Within is of
  Status error_;                              // sticky; protected by use_, like left_
  bool left_ = false;
  Watchdog watchdog_;
};

template <typename Look>
void Guard::lookBetweenCalls(const Look& look) {
  Use before = Use::kNone;
  while (!use_.compare_exchange_weak(before, Use::kLook, std::memory_order_acquire)) {
    if (before == Use::kCall) return;
    if (before != Use::kLook) continue;
    ::sched_yield();
    before = Use::kNone;
  }
  [[maybe_unused]] const Status looked = isWell() ? withoutExceptions([&] { look(); }) : Status();
  use_.store(before, std::memory_order_release);
}

template <typename Body>
Status Guard::recorded(FlightRecord record, int64_t timeout_ms, int64_t* looked_ns, bool has_begun,
                       const Body& body) {
  record.begun_ns = *looked_ns = parts_.clock.nowNs();
  FlightRecorder& recorder = calls().recorder();
  recorder.begin(record);
  const Status status =
      withoutExceptions([&] { return body(Deadline::at(parts_.clock, record.begun_ns, timeout_ms)); });
  const int64_t ended_ns = has_begun ? *looked_ns : parts_.clock.nowNs();
  recorder.end(record.sequence, ended_ns, status.ok() ? Outcome::kDone : Outcome::kFailed);
  if (Timeline* const timeline = parts_.records.timeline()) timeline->call(*recorder.find(record.sequence));
  return status.ok() ? status : fail(status);
}

}  // namespace horing
