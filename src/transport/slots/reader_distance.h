#pragma once
// The distance between the reader's cache and the core that writes slots.
#include <cstdint>

namespace horing {

// Measures the time to write a line that the reader has read since the last write: up to 50 ns between cores of one socket, 90 to 170
// between cores that are farther apart, where non-temporal stores arrive several times sooner (README.md). Interference makes single times
// longer, and accidental prefetches make them shorter, so most of several must agree. A virtual machine does not report the places of its
// cores, and they move.
class ReaderDistance {
 public:
  // Whether to time the next message: every one while in doubt, else one of 32.
  bool isDue() { return calls_++ % kCallsPerTime == 0 || isInDoubt(); }
  // `line_ns`: without the time to read the clock, which is longer on some machines.
  void learn(int64_t line_ns) {
    if (line_ns < (is_far_ ? kNearNs : kFarNs)) {
      if (slow_ > 0) --slow_;
    } else if (slow_ < kMostSlow) {
      ++slow_;
    }
    if (slow_ == 0) is_far_ = false;
    if (slow_ == kMostSlow) is_far_ = true;
  }
  bool isFar() const { return is_far_; }

 private:
  static constexpr uint32_t kCallsPerTime = 32;
  // Hysteresis: a distance between the two thresholds does not flip the result.
  static constexpr int64_t kNearNs = 60, kFarNs = 80;
  static constexpr int kMostSlow = 6;

  bool isInDoubt() const { return slow_ != (is_far_ ? kMostSlow : 0); }

  uint32_t calls_ = 0;
  int slow_ = 0;  // long times minus short times: 0 .. kMostSlow
  bool is_far_ = false;
};

}  // namespace horing
