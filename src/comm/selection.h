#pragma once
// Which algorithm serves a call. A pure function of what all ranks know alike, so that they agree without
// asking.
#include <cstddef>
#include <cstdint>
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

// What a choice rests on, besides the call. The same on every rank.
struct SelectionGround {
  const Config& config;
  const GroupMap& map;
  // Shared memory that all links of a node may take together; algorithms with many peers need a lot.
  uint64_t memory_bytes = UINT64_MAX;
  // That one link takes, both directions.
  uint64_t link_bytes = 0;
};

// `bytes`: of the whole vector (the gathered one, or the one to be reduced).
Selection selectAlgorithm(const SelectionGround& ground, Collective collective, size_t bytes);

// Why HORING_ALGO, or the natural choice, is not what runs here; empty when it is. For the log.
std::string explainFallback(const SelectionGround& ground);

}  // namespace horing
