#pragma once
// Numbers for graph replays, which run without a call of the host. Kernels count the runs of each part of a plan, and the counts
// are the same on all ranks: so plan, part and count together identify a run on all ranks.
#include <cstdint>

#include "base/check.h"

namespace horing {

// Above the numbers of calls and launches (control/call_report.h).
inline constexpr uint64_t kFirstReplay = uint64_t{1} << 63;

// One run of one part of a plan; the plan is given by collective, algorithm and, where there is one, root. A value.
struct ReplayNumber {
  uint32_t collective = 0;  // 4 bits
  uint32_t algorithm = 0;   // 6 bits: its index in the catalogue
  uint32_t root = 0;        // 20 bits
  uint32_t part = 0;        // 6 bits
  uint32_t run = 0;         // 27 bits: the number of earlier runs, which wraps around
  bool operator==(const ReplayNumber&) const = default;

  static constexpr uint32_t kRunMask = (1U << 27) - 1;
  // The caller makes sure that the numbers fit.
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

// For one part of a plan, how many runs a rank has begun and ended.
struct ReplayRuns {
  uint64_t begun = 0;
  uint64_t ended = 0;
  ReplayNumber of{};  // the first run
};

}  // namespace horing
