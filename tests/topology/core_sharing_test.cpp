#include "topology/core_sharing.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

std::vector<size_t> coresOf(const std::vector<int32_t>& ranks_of_nodes, size_t cores) {
  std::vector<int32_t> local_ranks;
  for (const int32_t ranks : ranks_of_nodes)
    for (int32_t local = 0; local < ranks; ++local) local_ranks.push_back(local);
  return coresOfRanks(local_ranks, cores);
}

// As bench/peers binds the ranks of all libraries (tests/programs/peers/sweep_test.py has the same).
TEST(CoreSharing, IsEvenWithTheRanksOfARailApart) {
  using Cores = std::vector<size_t>;
  EXPECT_EQ(coresOf({4}, 8), (Cores{0, 1, 2, 3}));
  EXPECT_EQ(coresOf({2, 2}, 4), (Cores{0, 1, 2, 3})) << "a core for each";
  EXPECT_EQ(coresOf({4}, 2), (Cores{0, 1, 0, 1}));
  EXPECT_EQ(coresOf({4, 4}, 2), (Cores{0, 1, 0, 1, 1, 0, 1, 0}));
  EXPECT_EQ(coresOf({2, 2, 2, 2}, 2), (Cores{0, 1, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(coresOf({2, 2, 2, 2}, 4), (Cores{0, 1, 2, 3, 1, 0, 3, 2}));
  EXPECT_EQ(coresOf({4, 3}, 3), (Cores{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(coresOf({1, 1, 1}, 1), (Cores{0, 0, 0}));
}

}  // namespace
}  // namespace horing
