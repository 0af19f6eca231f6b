#pragma once
// Which algorithm serves a call. A pure function of what all ranks know alike, so that they agree without
// asking.
#include <cstddef>
#include <string>
#include <string_view>

#include "algorithms/catalogue.h"
#include "base/config.h"
#include "topology/group_map.h"

namespace horing {

struct Selection {
  std::string_view algorithm;
  Shape shape;  // that the algorithm runs in: one group where it does not know groups
};

// `bytes`: of the whole vector (the gathered one, or the one to be reduced).
Selection selectAlgorithm(const Config& config, const GroupMap& map, Collective collective, size_t bytes);

// Why HORING_ALGO, or the natural choice, is not what runs here; empty when it is. For the log.
std::string explainFallback(const Config& config, const GroupMap& map);

}  // namespace horing
