#pragma once
// Time as a passed-in interface, so that tests can control it.
#include <chrono>
#include <cstdint>
#include <limits>

namespace horing {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds since an arbitrary start.
  virtual int64_t nowNs() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t nowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// A clock that moves only when the test advances it.
class ManualClock final : public Clock {
 public:
  int64_t nowNs() const override { return now_ns_; }
  void advanceNs(int64_t by) { now_ns_ += by; }

 private:
  int64_t now_ns_ = 0;
};

// A moment on one clock after which a wait gives up. A value; the clock must outlive it.
class Deadline {
 public:
  static Deadline after(const Clock& clock, int64_t timeout_ms) {
    return Deadline(clock, clock.nowNs() + timeout_ms * 1'000'000);
  }

  // For a caller that has read the clock already.
  static Deadline at(const Clock& clock, int64_t now_ns, int64_t timeout_ms) {
    return Deadline(clock, now_ns + timeout_ms * 1'000'000);
  }

  bool passed() const { return clock_->nowNs() >= at_ns_; }
  int64_t atNs() const { return at_ns_; }
  // Never negative; at most INT_MAX.
  int remainingMs() const {
    const int64_t left_ms = (at_ns_ - clock_->nowNs() + 999'999) / 1'000'000;
    if (left_ms < 0) return 0;
    return left_ms > std::numeric_limits<int>::max() ? std::numeric_limits<int>::max()
                                                     : static_cast<int>(left_ms);
  }

 private:
  Deadline(const Clock& clock, int64_t at_ns) : clock_(&clock), at_ns_(at_ns) {}
  const Clock* clock_;
  int64_t at_ns_;
};

}  // namespace horing
