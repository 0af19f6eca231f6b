#pragma once
// Time as a process lives it.
#include <cstdint>

#include "base/clock.h"

namespace horing {

// Another clock, less the time in which this process did not run because it, or its machine, was stopped: others cannot do
// anything about that. A wait that took much longer than it was to shows it. For one thread.
class WakingClock final : public Clock {
 public:
  // `clock` must outlive it.
  explicit WakingClock(const Clock& clock) : clock_(clock), woke_ns_(clock.nowNs()) {}
  int64_t nowNs() const override { return clock_.nowNs() - stopped_ns_; }
  // To be called after each wait, which was to take at most so long.
  void woke(int64_t after_ms) {
    const int64_t late_ns = nowNs() - woke_ns_ - after_ms * 1'000'000;
    if (late_ns >= kStoppedNs) stopped_ns_ += late_ns;
    woke_ns_ = nowNs();
  }

 private:
  // A thread that is merely late is not as late as that.
  static constexpr int64_t kStoppedNs = 250'000'000;
  const Clock& clock_;
  int64_t woke_ns_;
  int64_t stopped_ns_ = 0;
};

}  // namespace horing
