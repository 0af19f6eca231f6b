#pragma once
// The node of each rank: blocks of consecutive ranks.
#include <vector>

namespace horing::run {

struct Placement {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  int local_size = 0;
};

// The ranks of each node; if the number does not divide, the first nodes have one more. Precondition: 1 <= nodes <= ranks.
inline std::vector<int> spreadEvenly(int ranks, int nodes) {
  std::vector<int> ranks_of_node;
  for (int node = 0; node < nodes; ++node)
    ranks_of_node.push_back(ranks / nodes + (node < ranks % nodes ? 1 : 0));
  return ranks_of_node;
}

// In order of rank.
inline std::vector<Placement> placeRanks(const std::vector<int>& ranks_of_node) {
  std::vector<Placement> placements;
  int node = 0;
  for (const int local_size : ranks_of_node) {
    for (int local_rank = 0; local_rank < local_size; ++local_rank)
      placements.push_back({static_cast<int>(placements.size()), node, local_rank, local_size});
    ++node;
  }
  return placements;
}

}  // namespace horing::run
