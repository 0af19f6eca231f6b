#pragma once
// A clock that does not advance while the process is stopped.
#include <cstdint>

#include "base/clock.h"

namespace horing {

// Another clock, less the time in which this process, or its machine, was stopped: peers are not to blame for that time. A wait that took
// much longer than requested shows a stop. For one thread.
class WakingClock final : public Clock {
 public:
  // `clock` must outlive it.
  explicit WakingClock(const Clock& clock) : clock_(clock), woke_ns_(clock.nowNs()) {}
  int64_t nowNs() const override { return clock_.nowNs() - stopped_ns_; }
  // Call after each wait with the longest time that the wait was meant to take.
  void woke(int64_t after_ms) {
    const int64_t late_ns = nowNs() - woke_ns_ - after_ms * 1'000'000;
    if (late_ns >= kStoppedNs) stopped_ns_ += late_ns;
    woke_ns_ = nowNs();
  }

 private:
  // Scheduling delays are shorter.
  static constexpr int64_t kStoppedNs = 250'000'000;
  const Clock& clock_;
  int64_t woke_ns_;
  int64_t stopped_ns_ = 0;
};

}  // namespace horing
