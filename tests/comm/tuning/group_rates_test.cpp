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

// Whether a group that is not in the run of slow ones meets another such group.
bool meetsAFastOne(int group, int groups, int first_slow, int slow) {
  const auto isFast = [&](int other) { return (other - first_slow + groups) % groups >= slow; };
  for (int meeting = 0; meeting < kLeastMeetings; ++meeting) {
    const int partner = partnerOf(group, groups, roundOf(meeting, groups));
    if (partner >= 0 && isFast(partner)) return true;
  }
  return !isFast(group);
}

// A pair is as fast as its slower group, so a group that met slow ones only would count as slow.
TEST(GroupRates, LetEachFastGroupMeetAnotherWhereAThirdOfAllFollowOneAnotherAndAreSlow) {
  for (int groups = 5; groups <= 130; ++groups)
    for (int first_slow = 0; first_slow < groups; ++first_slow)
      for (int group = 0; group < groups; ++group)
        ASSERT_TRUE(meetsAFastOne(group, groups, first_slow, groups / 3))
            << "group " << group << " of " << groups << ", slow from " << first_slow << " on";
}

TEST(GroupRates, HaveMeetingsOfDifferentPairs) {
  for (int groups = kMostMeetings + 1; groups <= 130; ++groups) {
    std::set<int> rounds;
    for (int meeting = 0; meeting < kMostMeetings; ++meeting) {
      const int round = roundOf(meeting, groups);
      ASSERT_LT(round, groups - 1 + groups % 2);
      EXPECT_TRUE(rounds.insert(round).second) << groups << " groups, meeting " << meeting;
    }
  }
}

}  // namespace
}  // namespace horing
