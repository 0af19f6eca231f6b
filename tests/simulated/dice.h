#pragma once
// Random choices that are the same on every platform and compiler: the standard fixes the generator, not its
// distributions.
#include <cstdint>
#include <random>

namespace horing::simulated {

class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}

  uint64_t bits() { return generator_(); }
  // first .. last, both included.
  int64_t between(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(bits() % (static_cast<uint64_t>(last - first) + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <typename List>
  auto oneOf(const List& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(std::size(list)) - 1))];
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace horing::simulated
