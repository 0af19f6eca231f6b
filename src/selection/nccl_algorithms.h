#pragma once
// What NCCL_ALGO says, as scripts have it that named their NCCL_ variables anew.
//
//   Ring        ring,tree        ^NVLS        allreduce:tree,ring;broadcast:ring
#include <optional>
#include <string_view>
#include <vector>

#include "selection/forced_algorithms.h"

namespace horing {

// The nearest of ours: of a list the first that has the collective; none for NVLS and what NICs do, nor where a list says what not to
// use.
// Nothing: not in NCCL's spelling.
std::optional<std::vector<ForcedRow>> rowsOfNcclSpelling(std::string_view text);

}  // namespace horing
