#pragma once
// Measures which way to move ordinary memory between processes is faster: through slots (copied in and out, in the cache) or through the
// kernel (one copy, after a page lookup). It depends on the processor: on some, one way is four times as fast, on others the other way
// twice as fast. So calls try both ways in turns, for each size class, and the ranks exchange their times; all ranks decide by the same
// times, and so choose the same way.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace horing {

enum class CopyWay : uint8_t { kSlots, kKernel };

// One rank's best times, nanoseconds. Untrusted if from a peer.
struct CopyTimes {
  int64_t slots = 0;
  int64_t kernel = 0;
};

class CopyTrial {
 public:
  // The way for this call, by its size class. `slowest`: the largest own(bytes) of all ranks.
  CopyWay choose(size_t bytes, const CopyTimes& slowest) {
    Class& one = of(bytes);
    if (!one.decided && isEnough(one.tries, slowest))
      one.decided = slowest.kernel < slowest.slots ? CopyWay::kKernel : CopyWay::kSlots;
    if (one.decided) return *one.decided;
    return one.tries++ % 2 == 0 ? CopyWay::kSlots : CopyWay::kKernel;
  }
  bool isDecided(size_t bytes) const { return of(bytes).decided.has_value(); }
  // Records this rank's time of a call.
  void took(size_t bytes, CopyWay way, int64_t ns) {
    CopyTimes& best = of(bytes).best;
    int64_t& time = way == CopyWay::kSlots ? best.slots : best.kernel;
    time = std::min(time, ns);
  }
  CopyTimes own(size_t bytes) const { return of(bytes).best; }

 private:
  // Tries of both ways together. With two tries each, the slower way was once chosen.
  static constexpr uint32_t kLeastTries = 8, kMostTries = 16;
  static constexpr int64_t kClearly = 3;  // halves

  struct Class {
    uint32_t tries = 0;
    CopyTimes best{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()};
    std::optional<CopyWay> decided;
  };
  static bool isEnough(uint32_t tries, const CopyTimes& times) {
    if (tries < kLeastTries || tries % 2 != 0) return false;
    const int64_t faster = std::min(times.slots, times.kernel), slower = std::max(times.slots, times.kernel);
    return tries >= kMostTries || slower / kClearly >= faster / 2;
  }
  Class& of(size_t bytes) { return classes_[static_cast<size_t>(std::bit_width(bytes))]; }
  const Class& of(size_t bytes) const { return classes_[static_cast<size_t>(std::bit_width(bytes))]; }

  std::array<Class, 65> classes_;
};

}  // namespace horing
