#include "comm/guard/watchdog.h"

#include <algorithm>

#include "control/inquiry_times.h"

namespace horing {

void Watchdog::tell(CallReport::Kind kind, std::optional<uint64_t> call, Obstacle obstacle,
                    int64_t timeout_ms) {
  calls_.waits(call.value_or(kExchange), std::move(obstacle));
  has_told_ = true;
  if (!call) {
    RankState state = calls_.state(clock_.nowNs());
    state.overdue_ms = static_cast<uint32_t>(timeout_ms);
    control_.reportState(state);
    return;
  }
  CallReport report = calls_.report(*call);
  report.kind = kind;
  report.timeout_ms = static_cast<uint32_t>(timeout_ms);
  control_.reportCall(report);
}

Status Watchdog::overdue(std::optional<uint64_t> call, Obstacle obstacle, int64_t timeout_ms,
                         const Status& own) {
  tell(CallReport::Kind::kOverdue, call, std::move(obstacle), timeout_ms);
  return verdict(own);
}

Status Watchdog::verdict(const Status& own) const {
  const Deadline deadline = Deadline::after(clock_, kVerdictMs);
  // Without a rendezvous there is no verdict.
  while (!deadline.passed() && !aborted_.load(std::memory_order_relaxed) &&
         !control_.isOver(std::min(deadline.remainingMs(), kAbortCheckMs))) {
  }
  const Status judged = control_.status();
  return judged.ok() ? own : judged;
}

}  // namespace horing
