#pragma once
// How far the cache of whoever reads slots is from the core that writes them.
#include <cstdint>

namespace horing {

// Learns from how long it takes to write a line that the reader has read since it was last written: up to 50 ns between cores of one
// socket, 90 to 170 between those that are farther apart, where data stored past the caches arrives several times sooner
// (README.md). What else happens on the machine makes single times longer, and what this core fetched by chance shorter, so that most
// of several must agree. Nobody says where a virtual machine's cores are, and they move.
class ReaderDistance {
 public:
  // Whether the next message is to be timed: every one in doubt, else one of 32.
  bool isDue() { return calls_++ % kCallsPerTime == 0 || isInDoubt(); }
  // `line_ns`: without what it takes to look at the clock, which is more than all of that on some machines.
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
  // Apart, so that a distance between them does not change its name all the time.
  static constexpr int64_t kNearNs = 60, kFarNs = 80;
  static constexpr int kMostSlow = 6;

  bool isInDoubt() const { return slow_ != (is_far_ ? kMostSlow : 0); }

  uint32_t calls_ = 0;
  int slow_ = 0;  // times that were long, less those that were not: 0 .. kMostSlow
  bool is_far_ = false;
};

}  // namespace horing
