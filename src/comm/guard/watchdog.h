#pragma once
// Reports the call of a rank that waits too long to the rendezvous, which finds the rank to blame (control/call_ledger.h).
#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "control/call_log.h"
#include "control/control.h"

namespace horing {

// `call` is a call's number; nothing: a group of sends and receives, which control/wait_graph.h judges. One thread at a time. All arguments
// of the constructor must outlive it.
class Watchdog {
 public:
  // `aborted` ends the wait for a verdict.
  Watchdog(CallLog& calls, Control& control, const Clock& clock, const Log& log,
           const std::atomic<bool>& aborted)
      : calls_(calls), control_(control), clock_(clock), log_(log), aborted_(aborted) {}

  // Call this regularly while the call waits; its latest progress was idle_ns ago. Reports a long wait, and again at growing
  // intervals. describe() returns the obstacle, with the time of the latest progress if that differs, and is called only for a report.
  template <typename Describe>
  void look(std::optional<uint64_t> call, int64_t idle_ns, const Describe& describe) {
    if (idle_ns < kFirstReportNs) {
      due_ns_ = kFirstReportNs;
      is_named_ = false;
      wentOn();
    }
    if (idle_ns < due_ns_) return;
    due_ns_ = idle_ns + std::min(idle_ns, kLongestPauseNs);
    Obstacle obstacle = describe();
    if (obstacle.since_ns == INT64_MAX) obstacle.since_ns = clock_.nowNs() - idle_ns;
    // A late rank is no error.
    if (idle_ns >= kNamedNs && !std::exchange(is_named_, true))
      log_.info("comm", "has waited for %lld s: %s", static_cast<long long>(idle_ns / 1'000'000'000),
                obstacle.text.c_str());
    tell(CallReport::Kind::kStalled, call, std::move(obstacle), 0);
  }

  // Call this whenever the call makes progress, so that the rendezvous is not told that it still waits. Free unless it waited.
  void wentOn() {
    if (std::exchange(has_told_, false)) [[unlikely]]
      calls_.goesOn();
  }

  // The call failed with `own`. If ranks may have made different calls, returns the verdict of the rendezvous, or else `own`, after at
  // most 2 s. Messages whose sizes differ are the fault of their two ranks. describe() returns the obstacle, and is called only for a report.
  template <typename Describe>
  Status failed(std::optional<uint64_t> call, const Describe& describe, const Status& own) {
    if (!call || own.code() != Code::kInvalidUsage) return own;
    tell(CallReport::Kind::kMismatch, call, describe(), 0);
    return verdict(own);
  }
  // A connection was lost, perhaps to a rank that left because it called something else. If the rendezvous knows, its verdict arrives soon;
  // does not wait for it.
  void suspect(std::optional<uint64_t> call, Obstacle obstacle) {
    if (call) tell(CallReport::Kind::kMismatch, call, std::move(obstacle), 0);
  }
  // The deadline of the call, timeout_ms after its begin, has passed. Returns the verdict, or else `own`, after at most 2 s.
  Status overdue(std::optional<uint64_t> call, Obstacle obstacle, int64_t timeout_ms, const Status& own);

 private:
  static constexpr int64_t kFirstReportNs = 200'000'000;
  static constexpr int64_t kLongestPauseNs = 2'000'000'000;
  static constexpr int64_t kNamedNs = 10'000'000'000;

  void tell(CallReport::Kind kind, std::optional<uint64_t> call, Obstacle obstacle, int64_t timeout_ms);
  Status verdict(const Status& own) const;

  CallLog& calls_;
  Control& control_;
  const Clock& clock_;
  const Log& log_;
  const std::atomic<bool>& aborted_;
  int64_t due_ns_ = kFirstReportNs;  // idle time of the next report
  bool has_told_ = false;            // whether the rendezvous knows that the call waits
  bool is_named_ = false;            // whether the log has named the ranks that it waits for
};

}  // namespace horing
