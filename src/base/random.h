#pragma once
// A small random sequence, the same on every platform and compiler.
#include <cstdint>

namespace horing {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). A value.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 .. bound, both included.
  uint64_t upTo(uint64_t bound) { return bound == UINT64_MAX ? next() : next() % (bound + 1); }

 private:
  uint64_t state_;
};

}  // namespace horing
