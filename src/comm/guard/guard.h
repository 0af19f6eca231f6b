#pragma once
// Who may enter a communicator, what it did, and the error that ends it.
#include <atomic>
#include <memory>

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

// The first error sticks. One thread at a time is inside, in a call or for a look; abort(), asyncError() and news() may be called by any.
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

  // For a call, or for a look; it has to be asked whether it owns the communicator.
  ExclusiveUse enter(Use use = Use::kCall) const { return ExclusiveUse(use_, use); }
  // Why it does not.
  Status occupied() const;
  // To be asked first by whoever is inside for a call.
  Status mayBegin();
  // Inside of a call: while it waits for the rendezvous.
  Away away() { return Away(use_); }

  // By who is inside: `status` or, once there has been time enough to hear of it, its cause sticks. Returns the error that sticks.
  Status fail(Status status);
  // Something that this rank was to do before a call can begin failed for `why`: sticks, and the others hear of it. Returns the error
  // that sticks; `why` while another thread is in a call, which ends for it.
  Status breakOff(Status why);
  // What ends a call early: abort(), lost ranks, errors that other ranks announced.
  Status news() const;
  // The sticky error, with news if nobody is inside.
  Status asyncError();
  // Makes a running and every later call fail. Returns when no call is running.
  void abort();
  // Ends it in good order: nobody else is inside. Later calls are refused.
  void leave();
  bool hasLeft() const { return left_; }
  // By who is inside: nothing ended it so far.
  bool isWell() const { return error_.ok() && !left_; }
  // For good: nobody enters any more.
  void close() { ExclusiveUse(use_, Use::kCall).keep(); }
  // Runs `look` unless a call is inside that looks after itself; while a call is away, too.
  template <typename Look>
  void lookBetweenCalls(const Look& look);

  // Runs `body(Deadline)` as a call that is written down with its times; an error sticks. Tiny calls have begun already, and do without
  // a look at the clock when they end: `looked_ns` is when who drives last looked.
  template <typename Body>
  Status recorded(FlightRecord record, int64_t timeout_ms, int64_t* looked_ns, bool is_tiny,
                  const Body& body);

  Watchdog& watchdog() { return watchdog_; }
  CallLog& calls() { return parts_.records.calls(); }

 private:
  Status stick(Status error);
  Status rootCause(Status status) const;

  Parts parts_;
  mutable std::atomic<Use> use_{Use::kNone};
  Status error_;  // sticky; under use_, as left_
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
Status Guard::recorded(FlightRecord record, int64_t timeout_ms, int64_t* looked_ns, bool is_tiny,
                       const Body& body) {
  record.begun_ns = *looked_ns = parts_.clock.nowNs();
  FlightRecorder& recorder = calls().recorder();
  recorder.begin(record);
  const Status status =
      withoutExceptions([&] { return body(Deadline::at(parts_.clock, record.begun_ns, timeout_ms)); });
  const int64_t ended_ns = is_tiny ? *looked_ns : parts_.clock.nowNs();
  recorder.end(record.sequence, ended_ns, status.ok() ? Outcome::kDone : Outcome::kFailed);
  if (Timeline* const timeline = parts_.records.timeline()) timeline->call(*recorder.find(record.sequence));
  return status.ok() ? status : fail(status);
}

}  // namespace horing
