// The pairs of nodes in each round of measurements.
#include "horing_check/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace horing::check {
namespace {

// Pairs of the round; fails the test unless they are disjoint.
std::set<std::pair<int, int>> pairsOf(const Matching& partner) {
  std::set<std::pair<int, int>> pairs;
  for (int node = 0; node < static_cast<int>(partner.size()); ++node) {
    const int other = partner[static_cast<size_t>(node)];
    if (other < 0) continue;
    EXPECT_NE(other, node);
    EXPECT_EQ(partner[static_cast<size_t>(other)], node);
    pairs.insert({std::min(node, other), std::max(node, other)});
  }
  return pairs;
}

TEST(Rounds, MeetAllPairsEquallyOften) {
  for (int nodes = 2; nodes <= 20; ++nodes) {
    Rounds rounds(nodes, true, 1);
    std::multiset<std::pair<int, int>> met;
    for (int round = 0; round < rounds.planned(); ++round)
      met.merge(std::multiset<std::pair<int, int>>([&] {
        const auto pairs = pairsOf(rounds.next(round));
        EXPECT_EQ(pairs.size(), static_cast<size_t>(nodes / 2));
        return std::multiset<std::pair<int, int>>(pairs.begin(), pairs.end());
      }()));
    EXPECT_GE(rounds.planned(), 7);
    const size_t sweeps = met.count({0, 1});
    EXPECT_GE(sweeps, 1u);
    for (int a = 0; a < nodes; ++a)
      for (int b = a + 1; b < nodes; ++b)
        EXPECT_EQ(met.count({a, b}), sweeps) << nodes << ": " << a << ", " << b;
  }
}

TEST(Rounds, OfManyNodesAreFew) {
  Rounds rounds(1024, false, 1);
  EXPECT_EQ(rounds.planned(), 10);
  EXPECT_EQ(pairsOf(rounds.next(0)).size(), 512u);
  EXPECT_NE(rounds.next(1), rounds.next(2));
  EXPECT_EQ(Rounds(17, false, 1).planned(), 7);
  EXPECT_EQ(Rounds(17, true, 1).planned(), 17);
}

TEST(Rounds, ConfirmDoubtfulNodesWithGoodOnes) {
  Rounds rounds(8, true, 1);
  Verdict verdict;
  for (const int node : {1, 2, 3})
    verdict.findings.push_back({Quantity::kRate, Part::kSends, node, -1, 0.5, 7, node != 3});
  verdict.findings.push_back({Quantity::kRate, Part::kPath, 6, 7, 0.5, 1, false});
  for (int i = 0; i < 50; ++i) {
    const Matching partner = rounds.confirming(verdict);
    EXPECT_EQ(pairsOf(partner).size(), 4u);
    EXPECT_EQ(partner[6], 7);
    const std::set<int> good = {0, 4, 5};
    EXPECT_TRUE(good.contains(partner[3])) << partner[3];
  }
}

}  // namespace
}  // namespace horing::check
