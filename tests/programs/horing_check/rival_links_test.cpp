// Links of which several sets explain nearly the same.
#include "horing_check/rival_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulated_cluster.h"

namespace horing::check {
namespace {

using Groups = std::vector<NodeGroup>;

Groups drawGroups(int nodes, size_t size, size_t count, unsigned seed) {
  std::vector<int> order(static_cast<size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  Groups groups;
  for (size_t i = 0; i < count; ++i) {
    const auto first = order.begin() + static_cast<ptrdiff_t>(i * size);
    groups.emplace_back(first, first + static_cast<ptrdiff_t>(size));
    std::ranges::sort(groups.back());
  }
  std::ranges::sort(groups);
  return groups;
}

Verdict judge(int nodes, unsigned seed, const Groups& behind, double capacity, bool is_busy = false) {
  SimulatedCluster cluster(nodes, seed, {.spread = 0.02, .outliers = is_busy ? 0.05 : 0.01});
  for (const NodeGroup& group : behind) cluster.shareUplink({group.begin(), group.end()}, capacity);
  if (is_busy) cluster.pause(0.1, 0.1, 0.7);
  return cluster.check();
}

Groups confirmedIn(const Verdict& verdict) {
  Groups groups;
  for (const Uplink& uplink : verdict.uplinks)
    if (uplink.confirmed && std::ranges::count(groups, uplink.nodes) == 0) groups.push_back(uplink.nodes);
  std::ranges::sort(groups);
  return groups;
}

// Each of three groups of two meets each other; the links of the first two carry as much as one adapter.
TEST(RivalLinks, AreToldApartByHowManyPairsCrossEach) {
  const Groups groups = {{0, 1}, {2, 3}, {4, 5}};
  std::vector<PairRate> pairs;
  const auto meet = [&](size_t round, int one, int other, double rate) {
    pairs.push_back({round, one, other, rate < 0.8, rate});
  };
  for (size_t round = 0; round < 8; round += 2) {
    meet(round, 0, 4, 0.5), meet(round, 1, 5, 0.5), meet(round, 2, 3, 1);
    meet(round + 1, 0, 2, 0.5), meet(round + 1, 1, 3, 0.5), meet(round + 1, 4, 5, 1);
  }
  for (size_t round = 8; round < 12; ++round)
    meet(round, 2, 4, 0.5), meet(round, 3, 5, 0.5), meet(round, 0, 1, 1);
  const std::vector<Groups> sets = {{groups[0], groups[1]}, {groups[0], groups[2]}, {groups[1], groups[2]}};
  for (const LikelyLink& link : likeliestLinks(6, pairs, sets, 1.25))
    EXPECT_LT(link.lead, 1);  // nothing tells
  for (size_t round = 12; round < 24; round += 3) {
    meet(round, 0, 2, 0.5), meet(round, 1, 4, 0.5);
    meet(round + 1, 0, 2, 0.5), meet(round + 1, 3, 4, 0.5);
    meet(round + 2, 0, 4, 1), meet(round + 2, 2, 5, 1);  // two cross the third, and one each of the others
  }
  const std::vector<LikelyLink> links = likeliestLinks(6, pairs, sets, 1.25);
  ASSERT_EQ(links.size(), 2u);
  for (size_t i = 0; i < links.size(); ++i) {
    EXPECT_EQ(links[i].nodes, groups[i]);
    EXPECT_GT(links[i].lead, 7) << i;
  }
}

// All pairs of nodes of different groups are slow, which any two of the groups would explain.
TEST(RivalLinks, OfThreeGroupsAreThoseTwoThatAreThere) {
  int right = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const Groups groups = drawGroups(12, 4, 2, seed);
    const Verdict verdict = judge(12, seed, groups, 1);
    right += confirmedIn(verdict) == groups && blamed(verdict).empty() ? 1 : 0;
  }
  EXPECT_GE(right, 99);
}

// Single nodes are put into the wrong group first.
TEST(RivalLinks, OfThreeGroupsAreThoseTwoOnABusyMachine) {
  int right = 0;
  for (unsigned seed = 1000; seed < 1060; ++seed) {
    const Groups groups = drawGroups(12, 4, 2, seed);
    right += confirmedIn(judge(12, seed, groups, 1, /*is_busy=*/true)) == groups ? 1 : 0;
  }
  EXPECT_GE(right, 59);
}

TEST(RivalLinks, OfThreeGroupsMayBeAll) {
  int all = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const Groups groups = drawGroups(12, 4, 3, seed), found = confirmedIn(judge(12, seed, groups, 1));
    EXPECT_TRUE(std::ranges::includes(groups, found)) << seed;
    EXPECT_GE(found.size(), 2u) << seed;
    all += found == groups ? 1 : 0;
  }
  EXPECT_GE(all, 20);
}

TEST(RivalLinks, OfTwoNodesAreNotTakenForOneOfAll) {
  int right = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const Groups groups = drawGroups(32, 2, 4, seed);
    right += confirmedIn(judge(32, seed, groups, 1)) == groups ? 1 : 0;
  }
  EXPECT_GE(right, 34);
}

// Each of the eight is slow with all nodes but one.
TEST(RivalLinks, OfTwoNodesMayHoldHalfOfTheNodes) {
  int found = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const Groups groups = drawGroups(16, 2, 4, seed);
    const Verdict verdict = judge(16, seed, groups, 1);
    EXPECT_EQ(blamed(verdict), "") << seed;
    found += std::ranges::includes(groups, confirmedIn(verdict)) && !verdict.uplinks.empty() ? 1 : 0;
  }
  EXPECT_GE(found, 7);
}

// Long after the first 6,000 meetings of their nodes.
TEST(RivalLinks, MayBecomeSlowLater) {
  const Groups groups = drawGroups(64, 8, 2, 1);
  SimulatedCluster cluster(64, 1);
  Rounds rounds(64, false, 1);
  for (int round = 0; round < 2'400; ++round) {
    if (round == 450)
      for (const NodeGroup& group : groups) cluster.shareUplink({group.begin(), group.end()}, 2);
    cluster.measure(rounds.next(round), round);
  }
  EXPECT_EQ(confirmedIn(diagnose(cluster.figures())), groups);
}

// Four groups, three of which are behind links.
TEST(RivalLinks, ShareNoNode) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const Groups behind = drawGroups(16, 4, 3, seed);
    const Verdict verdict = judge(16, seed, behind, 1);
    EXPECT_TRUE(std::ranges::includes(behind, confirmedIn(verdict))) << seed;
    std::set<NodeGroup> groups;
    for (const Uplink& uplink : verdict.uplinks) groups.insert(uplink.nodes);
    std::set<int> seen;
    for (const NodeGroup& group : groups)
      for (const int node : group) EXPECT_TRUE(seen.insert(node).second) << seed << ": " << node;
  }
}

}  // namespace
}  // namespace horing::check
