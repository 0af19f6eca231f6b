#pragma once
// A number for what a graph replays, which no call of a host tells of. Kernels count the runs of each part of a plan, and the counts
// are alike on all ranks: so the plan, its part and the count there are known to all.
#include <cstdint>

#include "base/check.h"

namespace horing {

// Behind calls and launches (control/call_report.h).
inline constexpr uint64_t kFirstReplay = uint64_t{1} << 63;

// A run of one part of the plan that a collective has by an algorithm, from a root where it has one. A value.
struct ReplayNumber {
  uint32_t collective = 0;  // 4 bits
  uint32_t algorithm = 0;   // 6 bits: its place in the catalogue
  uint32_t root = 0;        // 20 bits
  uint32_t part = 0;        // 6 bits
  uint32_t run = 0;         // 27 bits: how many there were before, and begins anew
  bool operator==(const ReplayNumber&) const = default;

  static constexpr uint32_t kRunMask = (1U << 27) - 1;
  // Of numbers that fit; who makes them sees to that.
  constexpr uint64_t encoded() const {
    const uint64_t number = kFirstReplay | uint64_t{collective} << 59 | uint64_t{algorithm} << 53 |
                            uint64_t{root} << 33 | uint64_t{part} << 27 | run;
    HORING_CHECK(decoded(number) == *this);
    return number;
  }
  static constexpr ReplayNumber decoded(uint64_t number) {
    return {static_cast<uint32_t>(number >> 59 & 15), static_cast<uint32_t>(number >> 53 & 63),
            static_cast<uint32_t>(number >> 33 & 0xfffff), static_cast<uint32_t>(number >> 27 & 63),
            static_cast<uint32_t>(number & kRunMask)};
  }
};

// Of a part of a plan, how many a rank has begun and ended.
struct ReplayRuns {
  uint64_t begun = 0;
  uint64_t ended = 0;
  ReplayNumber of{};  // the first of them
};

}  // namespace horing
