#pragma once
// The syntax of NCCL_ALGO, for scripts that renamed their NCCL_ variables.
//
//   Ring        ring,tree        ^NVLS        allreduce:tree,ring;broadcast:ring
#include <optional>
#include <string_view>
#include <vector>

#include "selection/forced_algorithms.h"

namespace horing {

// The closest algorithms of horing: from a list the first that has the collective; none for NVLS and NIC offloads, nor for a list of
// exclusions. Nothing: not in NCCL's spelling.
std::optional<std::vector<ForcedRow>> rowsOfNcclSpelling(std::string_view text);

}  // namespace horing
