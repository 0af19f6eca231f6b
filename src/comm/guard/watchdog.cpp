#include "comm/guard/watchdog.h"

#include <poll.h>

namespace horing {

namespace {
// The rendezvous gives all ranks half a second to answer, and a second to come into the call.
constexpr int64_t kVerdictMs = 2000;
constexpr int kVerdictCheckMs = 50;
}  // namespace

void Watchdog::tell(CallReport::Kind kind, uint64_t sequence, Obstacle obstacle, int64_t timeout_ms) {
  calls_.waits(sequence, std::move(obstacle));
  has_told_ = true;
  if (sequence == kExchange) {
    RankState state = calls_.state(clock_.nowNs());
    state.overdue_ms = static_cast<uint32_t>(timeout_ms);
    control_.reportState(state);
    return;
  }
  CallReport report = calls_.report(sequence);
  report.kind = kind;
  report.timeout_ms = static_cast<uint32_t>(timeout_ms);
  control_.reportCall(report);
}

Status Watchdog::mismatch(uint64_t sequence, Obstacle obstacle, const Status& own) {
  if (sequence == kExchange) return own;
  tell(CallReport::Kind::kMismatch, sequence, std::move(obstacle), 0);
  return verdict(own);
}

Status Watchdog::overdue(uint64_t sequence, Obstacle obstacle, int64_t timeout_ms, const Status& own) {
  tell(CallReport::Kind::kOverdue, sequence, std::move(obstacle), timeout_ms);
  return verdict(own);
}

Status Watchdog::verdict(const Status& own) const {
  const Deadline deadline = Deadline::after(clock_, kVerdictMs);
  // Without a rendezvous that is there, nobody judges.
  while (control_.status().ok() && control_.fd() >= 0 && !deadline.passed() &&
         !aborted_.load(std::memory_order_relaxed)) {
    pollfd entry{control_.fd(), POLLIN, 0};
    [[maybe_unused]] const int ready = ::poll(&entry, 1, std::min(deadline.remainingMs(), kVerdictCheckMs));
  }
  const Status judged = control_.status();
  return judged.ok() ? own : judged;
}

}  // namespace horing
