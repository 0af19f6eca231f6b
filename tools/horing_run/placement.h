#pragma once
// Which node a rank runs on: blocks of neighbouring ranks, the first nodes taking one more when it does not
// divide.
#include <vector>

namespace horing::run {

struct Placement {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  int local_size = 0;
};

// Precondition: 1 <= nodes <= ranks. In order of rank.
inline std::vector<Placement> placeRanks(int ranks, int nodes) {
  std::vector<Placement> placements;
  for (int node = 0; node < nodes; ++node) {
    const int local_size = ranks / nodes + (node < ranks % nodes ? 1 : 0);
    for (int local_rank = 0; local_rank < local_size; ++local_rank)
      placements.push_back({static_cast<int>(placements.size()), node, local_rank, local_size});
  }
  return placements;
}

}  // namespace horing::run
