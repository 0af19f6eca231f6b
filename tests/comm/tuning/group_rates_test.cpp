#include "comm/tuning/group_rates.h"

#include <gtest/gtest.h>

#include <set>

namespace horing {
namespace {

TEST(GroupRates, LetEachGroupMeetEveryOtherOnce) {
  for (const int groups : {2, 3, 4, 5, 8, 9, 16}) {
    std::vector<std::set<int>> met(static_cast<size_t>(groups));
    for (int round = 0; round < groups - 1 + groups % 2; ++round)
      for (int group = 0; group < groups; ++group) {
        const int partner = partnerOf(group, groups, round);
        ASSERT_NE(partner, group);
        if (partner < 0) continue;
        ASSERT_LT(partner, groups);
        EXPECT_EQ(partnerOf(partner, groups, round), group) << groups << " groups, round " << round;
        EXPECT_TRUE(met[static_cast<size_t>(group)].insert(partner).second);
      }
    for (const std::set<int>& partners : met) EXPECT_EQ(partners.size(), static_cast<size_t>(groups - 1));
  }
}

}  // namespace
}  // namespace horing
