// The pairs of nodes in each round of measurements.
#include "horing_check/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
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

// Until they are not, or will never be. Others are measured between: a pause slows those, too.
TEST(Rounds, MeasureSlowRoundsAgain) {
  Rounds rounds(8, false, 1);
  Verdict verdict;
  std::vector<Matching> all;
  while (std::ssize(all) < rounds.planned())
    all.push_back(rounds.after(static_cast<int>(all.size()), verdict).value());
  const std::vector<Matching> planned = all;
  EXPECT_FALSE(rounds.after(rounds.planned(), verdict)) << "nothing was slow";
  verdict.slow_rounds = {2, 5};
  const auto is_slow = [&](const Matching& partner) {
    return partner == planned[2] || partner == planned[5];
  };
  std::set<Matching> others;
  while (const std::optional<Matching> partner = rounds.after(static_cast<int>(all.size()), verdict)) {
    if (all.size() % 2 == 0) {
      EXPECT_TRUE(is_slow(*partner)) << all.size();
    } else {
      others.insert(*partner);
    }
    all.push_back(*partner);
  }
  EXPECT_LE(std::ssize(all), rounds.planned() + kMostConfirmingRounds);
  EXPECT_GE(others.size(), 6u) << "others in turns";
  for (const Matching& partner : {planned[2], planned[5]}) EXPECT_EQ(std::ranges::count(all, partner), 5);
}

// Alternately: across it, and not. The collectives need time, too.
TEST(Rounds, TellALinkFromPauses) {
  for (const bool are_slow : {false, true}) {
    Rounds rounds(8, false, 1);
    Verdict verdict;
    for (int done = 0; done < rounds.planned(); ++done) (void)rounds.after(done, verdict);
    verdict.uplinks.push_back({.nodes = {2, 3, 6, 7}, .confirmed = false});
    if (are_slow) verdict.slow_rounds = {0, 1, 2, 3, 4, 5, 6};
    std::vector<int> crossing;
    for (int done = rounds.planned(); const std::optional<Matching> partner = rounds.after(done, verdict);
         ++done) {
      crossing.push_back(0);
      for (const auto& [a, b] : pairsOf(*partner)) crossing.back() += (a & 2) != (b & 2) ? 1 : 0;
    }
    EXPECT_EQ(std::ssize(crossing), kMostRoundsOfLinks);
    EXPECT_GE(std::ranges::count(crossing, 4), kMostRoundsOfLinks / 4);
    EXPECT_GE(std::ranges::count_if(crossing, [](int count) { return count < 4; }), kMostRoundsOfLinks / 4);
  }
}

// Two uplinks of four.
TEST(Rounds, LetAllSlowNodesOfManyMeet) {
  Rounds rounds(32, false, 1);
  Verdict verdict;
  int done = 0;
  while (done < rounds.planned()) (void)rounds.after(done++, verdict);
  verdict.slow_at_once = {1, 2, 3, 4, 20, 21, 22, 23};
  std::set<std::pair<int, int>> met;
  while (const std::optional<Matching> partner = rounds.after(done++, verdict)) met.merge(pairsOf(*partner));
  for (const int a : verdict.slow_at_once)
    for (const int b : verdict.slow_at_once) EXPECT_TRUE(a >= b || met.contains({a, b})) << a << ", " << b;
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
