#include "topology/core_sharing.h"

#include <map>
#include <utility>

namespace horing {

// Each rank in turn takes the core with the fewest ranks so far; on a tie, the fewest ranks with its local rank; then the first core.
std::vector<size_t> coresOfRanks(std::span<const int32_t> local_ranks, size_t cores) {
  std::vector<size_t> taken;
  std::vector<int32_t> ranks(cores);
  std::map<int32_t, std::vector<int32_t>> ranks_of;  // by local rank
  for (const int32_t local_rank : local_ranks) {
    std::vector<int32_t>& like = ranks_of.try_emplace(local_rank, cores).first->second;
    size_t best = 0;
    for (size_t core = 1; core < cores; ++core)
      if (std::pair(ranks[core], like[core]) < std::pair(ranks[best], like[best])) best = core;
    ++ranks[best];
    ++like[best];
    taken.push_back(best);
  }
  return taken;
}

}  // namespace horing
