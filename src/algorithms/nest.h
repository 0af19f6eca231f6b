#pragma once
// Patterns nested in each other: the one composition that ring, direct, halving_doubling and the ho_ family are made
// of. See nest.cpp.
#include <span>

#include "algorithms/pattern.h"
#include "schedule/schedule.h"

namespace horing {

// One level of the machine: `size` parts. Members of these parts with the same inner index exchange by `pattern`.
struct Level {
  int32_t size = 1;
  Pattern pattern = Pattern::kRing;
};

inline constexpr size_t kMaxLevels = kMaxLanes / 2;

// The schedule at `position` of levels from the outermost (slowest) to the innermost, e.g. {nodes, ranks of a node}; position = (index of
// the outermost part) * (ranks of such a part) + ...; at most kMaxLevels of a size above 1. `root`: position; for reduce only.
Schedule buildNest(Collective collective, std::span<const Level> levels, int32_t position, int32_t root = 0);

}  // namespace horing
