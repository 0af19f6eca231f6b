#pragma once
// Speaks for a rank that waits: reports its call to the rendezvous, which finds out who is to blame (control/call_ledger.h).
#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "control/call_log.h"
#include "control/control.h"

namespace horing {

// `sequence` is a call's number, or kExchange for a group of sends and receives, which control/wait_graph.h judges.
// One thread at a time. All that it takes must outlive it.
class Watchdog {
 public:
  // `aborted`: ends the waiting for a verdict.
  Watchdog(CallLog& calls, Control& control, const Clock& clock, const Log& log,
           const std::atomic<bool>& aborted)
      : calls_(calls), control_(control), clock_(clock), log_(log), aborted_(aborted) {}

  // To be called now and then while call `sequence` waits, which last went on idle_ns ago. Reports when that is long, and
  // again at growing intervals; describe() says what the call waits for, and is only called then.
  template <typename Describe>
  void look(uint64_t sequence, int64_t idle_ns, const Describe& describe) {
    if (idle_ns < kFirstReportNs) {
      due_ns_ = kFirstReportNs;
      is_named_ = false;
      wentOn();
    }
    if (idle_ns < due_ns_) return;
    due_ns_ = idle_ns + std::min(idle_ns, kLongestPauseNs);
    Obstacle obstacle = describe();
    obstacle.since_ns = clock_.nowNs() - idle_ns;
    // Late is no error.
    if (idle_ns >= kNamedNs && !std::exchange(is_named_, true))
      log_.info("comm", "has waited for %lld s: %s", static_cast<long long>(idle_ns / 1'000'000'000),
                obstacle.text.c_str());
    tell(CallReport::Kind::kStalled, sequence, std::move(obstacle), 0);
  }

  // To be called whenever the call goes on: who asks then shall not hear that it waits. Costs nothing unless it waited.
  void wentOn() {
    if (std::exchange(has_told_, false)) [[unlikely]]
      calls_.goesOn();
  }

  // The call cannot go on for the reason `own`, which is perhaps another rank's fault. Returns that rank's, or else `own`,
  // after at most 2 s. Messages that do not fit each other are the fault of these two ranks.
  Status mismatch(uint64_t sequence, Obstacle obstacle, const Status& own);
  // A connection was lost, perhaps to a rank that left because it called something else. The rendezvous, if it knows, says so
  // soon; not waited for.
  void suspect(uint64_t sequence, Obstacle obstacle) {
    if (sequence != kExchange) tell(CallReport::Kind::kMismatch, sequence, std::move(obstacle), 0);
  }
  // As mismatch(), when the call's deadline, timeout_ms after it began, has passed.
  Status overdue(uint64_t sequence, Obstacle obstacle, int64_t timeout_ms, const Status& own);

 private:
  static constexpr int64_t kFirstReportNs = 200'000'000;
  static constexpr int64_t kLongestPauseNs = 2'000'000'000;
  static constexpr int64_t kNamedNs = 10'000'000'000;

  void tell(CallReport::Kind kind, uint64_t sequence, Obstacle obstacle, int64_t timeout_ms);
  Status verdict(const Status& own) const;

  CallLog& calls_;
  Control& control_;
  const Clock& clock_;
  const Log& log_;
  const std::atomic<bool>& aborted_;
  int64_t due_ns_ = kFirstReportNs;  // idle time of the next report
  bool has_told_ = false;            // that the call waits
  bool is_named_ = false;            // in the log: for whom
};

}  // namespace horing
