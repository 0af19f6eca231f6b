// The diagnosis of clusters with known faults.
#include <gtest/gtest.h>

#include <numeric>

#include "simulated_cluster.h"

namespace horing::check {
namespace {

using test::casesOf;

TEST(Diagnosis, OfNothingSaysNothing) {
  const Verdict none = diagnose({8, {}});
  EXPECT_TRUE(none.findings.empty());
  EXPECT_EQ(none.bytes_per_s, 0);
  const Verdict useless = diagnose({2, {{0, 1, 0, -1, 0}, {1, 0, std::nan(""), INFINITY, 0}}});
  EXPECT_TRUE(useless.findings.empty());
}

TEST(Diagnosis, TellsTheRateAndTheLatencyOfTheCluster) {
  SimulatedCluster cluster(8, 1);
  cluster.slowSender(3, 0.4);
  const Verdict verdict = cluster.check();
  EXPECT_NEAR(verdict.bytes_per_s, 1e9, 0.02e9);
  EXPECT_NEAR(verdict.latency_s, 20e-6, 2e-6);
  EXPECT_NEAR(verdict.scatter, 0.02, 0.012);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_NEAR(verdict.findings[0].factor, 0.4, 0.02);
  EXPECT_EQ(verdict.findings[0].partners, 7);
}

TEST(Diagnosis, TellsSenderReceiverAndPathApart) {
  for (const int nodes : {3, 4, 5, 8, 16}) {
    SimulatedCluster sender(nodes, 1), receiver(nodes, 2), path(nodes, 3), node(nodes, 4);
    sender.slowSender(1, 0.7);
    receiver.slowReceiver(1, 0.7);
    path.slowPath(1, 2, 0.7);
    node.slowSender(0, 0.5), node.slowReceiver(0, 0.5);
    EXPECT_EQ(blamed(sender.check()), "1 sends") << nodes;
    EXPECT_EQ(blamed(receiver.check()), "1 receives") << nodes;
    EXPECT_EQ(blamed(path.check()), "1>2") << nodes;
    EXPECT_EQ(blamed(node.check()), "0 sends, 0 receives") << nodes;
  }
}

// Then most partners of each node are slow. Where noise slows more of the rest, or fast nodes of many have not met, nobody is blamed.
TEST(Diagnosis, FindsHalfOfTheNodesSlow) {
  for (const int nodes : {6, 8, 16, 32}) {
    int right = 0;
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SimulatedCluster cluster(nodes, seed);
      std::string expected;
      for (int node = 1; node <= nodes / 2; ++node) {
        cluster.slowSender(node, 0.6), cluster.slowReceiver(node, 0.6);
        const std::string name = std::to_string(node);
        expected += (node == 1 ? "" : ", ") + name + " sends, " + name + " receives";
      }
      const Verdict verdict = cluster.check();
      const bool is_right = blamed(verdict) == expected;
      right += is_right ? 1 : 0;
      EXPECT_TRUE(is_right || blamed(verdict).empty()) << nodes << " " << seed << ": " << blamed(verdict);
      EXPECT_TRUE(verdict.uplinks.empty()) << nodes << " " << seed;
      const int most_rounds = Rounds(nodes, false, 1).planned() + kMostConfirmingRounds;
      if (is_right && nodes <= 16) {
        EXPECT_LE(cluster.figures().samples.back().round, most_rounds) << nodes << " " << seed;
      }
    }
    EXPECT_GE(right, nodes > 16 ? 1 : 19) << nodes;
  }
}

TEST(Diagnosis, OfTwoNodesBlamesThePath) {
  SimulatedCluster cluster(2, 1), clean(2, 2);
  cluster.slowSender(0, 0.5);
  EXPECT_EQ(blamed(cluster.check()), "0>1");
  EXPECT_EQ(blamed(clean.check()), "");
}

TEST(Diagnosis, TellsAnUplinkFromTheNodesThatShareIt) {
  const std::set<int> group = {4, 5, 6};
  for (const double capacity : {0.5, 1.0, 1.5, 2.0})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SimulatedCluster uplink(12, seed), slow(12, seed);
      uplink.shareUplink(group, capacity);
      for (const int node : group) slow.slowSender(node, capacity / 3), slow.slowReceiver(node, capacity / 3);
      const Verdict verdict = uplink.check();
      EXPECT_EQ(uplinksOf(verdict), "4 5 6 send, 4 5 6 receive") << capacity << " " << seed;
      const Verdict nodes = slow.check();
      EXPECT_EQ(uplinksOf(nodes), "") << capacity << " " << seed;
      EXPECT_EQ(blamed(nodes), "4 sends, 4 receives, 5 sends, 5 receives, 6 sends, 6 receives");
    }
  SimulatedCluster clean(12, 3);
  EXPECT_EQ(uplinksOf(clean.check()), "");
}

// Of four nodes one or two were hardly slow with the others, since few crossed when they were measured again. Pauses slow all nodes at once, and
// what the four exchange among themselves.
TEST(Diagnosis, FindsEachNodeBehindAnUplinkOnABusyMachine) {
  for (const double pauses : {0.0, 0.1, 0.25, 0.4}) {
    constexpr unsigned kCases = casesOf(40);
    unsigned right = 0;
    for (unsigned seed = 1; seed <= kCases; ++seed) {
      SimulatedCluster cluster(16, seed, {0.02, 0.1});
      const int first = static_cast<int>(seed % 13);
      cluster.shareUplink({first, first + 1, first + 2, first + 3}, 2);
      cluster.pause(pauses);
      std::string group;
      for (int node = first; node < first + 4; ++node) group += std::to_string(node) + " ";
      right += uplinksOf(cluster.check()) == group + "send, " + group + "receive" ? 1 : 0;
    }
    EXPECT_GE(right, kCases - 2) << pauses;
  }
}

TEST(Diagnosis, TellsTwoUplinksApartAndASlowNodeBesideThem) {
  SimulatedCluster cluster(16, 1);
  cluster.shareUplink({1, 2, 3}, 1.0);
  cluster.shareUplink({10, 11, 12}, 1.0);
  cluster.slowSender(7, 0.3);
  const Verdict verdict = cluster.check();
  EXPECT_EQ(uplinksOf(verdict), "1 2 3 send, 1 2 3 receive, 10 11 12 send, 10 11 12 receive");
  EXPECT_NE((", " + blamed(verdict)).find(", 7 sends"), std::string::npos);
}

// Slow only while three or four pairs cross it. Of half of the nodes, which half does not matter. Of nodes in the middle some send first to
// their partners and some receive first.
TEST(Diagnosis, FindsAnUplinkThatIsSlowOnlyWhileManyUseIt) {
  for (const int nodes : {8, 16})
    for (int first = 1; first + 4 <= nodes; ++first)
      for (unsigned seed = 1; seed <= casesOf(50); ++seed) {
        SCOPED_TRACE(std::to_string(nodes) + " nodes, from " + std::to_string(first) + ", " +
                     std::to_string(seed));
        SimulatedCluster cluster(nodes, seed);
        std::string group;
        for (int node = first; node < first + 4; ++node) group += std::to_string(node) + " ";
        cluster.shareUplink({first, first + 1, first + 2, first + 3}, 2);
        const Verdict verdict = cluster.check();
        EXPECT_EQ(uplinksOf(verdict), group + "send, " + group + "receive");
        EXPECT_EQ(blamed(verdict), "");
        for (const Uplink& uplink : verdict.uplinks)
          EXPECT_TRUE(uplink.confirmed && uplink.at_once) << uplink.factor;
      }
}

TEST(Diagnosis, TellsInWhichDirectionAnUplinkIsSlow) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SimulatedCluster sends(12, seed), receives(12, seed);
    sends.shareUplink({4, 5, 6}, 0.6, 3);
    receives.shareUplink({4, 5, 6}, 3, 0.6);
    EXPECT_EQ(uplinksOf(sends.check()), "4 5 6 send") << seed;
    EXPECT_EQ(uplinksOf(receives.check()), "4 5 6 receive") << seed;
  }
}

// Then most figures are slow. Either half's uplink explains them.
TEST(Diagnosis, FindsAnUplinkOfHalfOfTheNodesThatCarriesLessThanTwoAdapters) {
  for (const double capacity : {0.5, 1.0, 1.5})
    for (const int first : {1, 4})
      for (unsigned seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(std::to_string(capacity) + ", from " + std::to_string(first) + ", " +
                     std::to_string(seed));
        SimulatedCluster cluster(8, seed);
        cluster.shareUplink({first, first + 1, first + 2, first + 3}, capacity);
        const Verdict verdict = cluster.check();
        EXPECT_EQ(uplinksOf(verdict),
                  first == 1 ? "1 2 3 4 send, 1 2 3 4 receive" : "4 5 6 7 send, 4 5 6 7 receive");
        EXPECT_EQ(blamed(verdict), "");
        EXPECT_NEAR(verdict.bytes_per_s, 1e9, 0.05e9);
      }
}

// Each of the two has one partner that the uplink does not slow.
TEST(Diagnosis, FindsAnUplinkOfTwoNodes) {
  for (const int nodes : {8, 16, 32})
    for (const double capacity : {0.5, 1.0})
      for (const double unequal : {0.001, 0.17}) {
        SCOPED_TRACE(std::to_string(nodes) + " nodes, " + std::to_string(capacity) + ", " +
                     std::to_string(unequal));
        constexpr unsigned kCases = casesOf(30);
        unsigned right = 0;
        for (unsigned seed = 1; seed <= kCases; ++seed) {
          SimulatedCluster cluster(nodes, seed);
          cluster.shareUnequally(unequal);
          const int first = static_cast<int>(seed) % (nodes - 1);
          const std::string group = std::to_string(first) + " " + std::to_string(first + 1) + " ";
          cluster.shareUplink({first, first + 1}, capacity);
          const Verdict verdict = cluster.check();
          right +=
              uplinksOf(verdict) == group + "send, " + group + "receive" && blamed(verdict).empty() ? 1 : 0;
        }
        EXPECT_GE(right, kCases - 1);
      }
}

TEST(Diagnosis, TakesNoPauseOfTheWholeClusterForAnUplink) {
  for (const int nodes : {4, 8, 16})
    for (unsigned seed = 1; seed <= casesOf(200); ++seed) {
      SimulatedCluster cluster(nodes, seed);
      cluster.pause(0.1);
      for (const Uplink& uplink : cluster.check().uplinks)
        EXPECT_FALSE(uplink.confirmed) << nodes << " " << seed;
    }
}

// Nodes that are slow with all of the others meet; then each has partners that no uplink slows.
TEST(Diagnosis, TellsTwoUplinksOfManyNodesApart) {
  constexpr unsigned kCases = casesOf(50);
  unsigned right = 0;
  for (unsigned seed = 1; seed <= kCases; ++seed) {
    SimulatedCluster cluster(32, seed);
    cluster.shareUplink({1, 2, 3, 4}, 1);
    cluster.shareUplink({20, 21, 22, 23}, 1);
    const Verdict verdict = cluster.check();
    right += uplinksOf(verdict) == "1 2 3 4 send, 1 2 3 4 receive, 20 21 22 23 send, 20 21 22 23 receive" &&
                     blamed(verdict).empty()
                 ? 1
                 : 0;
  }
  EXPECT_GE(right, kCases - 4);
}

// Nodes of many have hardly met in the planned rounds, so those that are slow meet afterwards. Of those in the middle some send first to
// their partners and some receive first, so that they are slow only while both send.
TEST(Diagnosis, TellsAnUplinkOfManyNodesFromSlowNodes) {
  for (const int first : {4, 14}) {
    const std::set<int> group = {first, first + 1, first + 2, first + 3};
    std::string names;
    for (const int node : group) names += std::to_string(node) + " ";
    constexpr unsigned kCases = casesOf(50);
    unsigned right = 0;
    for (unsigned seed = 1; seed <= kCases; ++seed) {
      SimulatedCluster uplink(32, seed), slow(32, seed);
      uplink.shareUplink(group, 2);
      for (const int node : group) slow.slowSender(node, 0.5), slow.slowReceiver(node, 0.5);
      right += uplinksOf(uplink.check()) == names + "send, " + names + "receive" ? 1 : 0;
      EXPECT_EQ(uplinksOf(slow.check()), "") << first << " " << seed;
    }
    EXPECT_GE(right, kCases - 4) << first;
  }
}

// A slow path of a node that is slow itself, and slower than that.
TEST(Diagnosis, ExplainsOnlyWhatIsNotExplained) {
  SimulatedCluster cluster(8, 1);
  cluster.slowSender(2, 0.6);
  cluster.slowPath(2, 5, 0.3);
  cluster.slowReceiver(6, 0.8);
  EXPECT_EQ(blamed(cluster.check()), "2 sends, 2>5, 6 receives");
}

TEST(Diagnosis, FindsLatency) {
  SimulatedCluster node(8, 1), clean(8, 2);
  node.delayNode(4, 200e-6);
  const Verdict verdict = node.check();
  EXPECT_EQ(blamed(verdict, Quantity::kLatency), "4 sends, 4 receives");
  EXPECT_EQ(blamed(verdict), "");
  EXPECT_EQ(blamed(clean.check(), Quantity::kLatency), "");
}

TEST(Diagnosis, FindsWrongData) {
  SimulatedCluster path(8, 1), node(8, 2);
  path.corrupt(3, 4);
  for (const int other : {0, 1, 5}) node.corrupt(2, other);
  node.corrupt(6, 7);
  EXPECT_EQ(blamed(path.check(), Quantity::kData), "3>4");
  EXPECT_EQ(blamed(node.check(), Quantity::kData), "2 sends, 6>7");
}

// One figure may be an accident; it is confirmed or withdrawn when it is measured again.
TEST(Diagnosis, BlamesNoPathForOneFigure) {
  Figures figures{4, {}};
  Rounds rounds(4, true, 1);
  for (int round = 0; round < 3; ++round) {
    const Matching partner = rounds.next(round);
    for (int to = 0; to < 4; ++to)
      figures.samples.push_back({partner[static_cast<size_t>(to)], to, 1e9, 20e-6, 0});
  }
  figures.samples.front().bytes_per_s = 0.3e9;
  const Verdict once = diagnose(figures);
  ASSERT_EQ(once.findings.size(), 1u);
  EXPECT_EQ(once.findings[0].part, Part::kPath);
  EXPECT_FALSE(once.findings[0].confirmed);
  const Matching again = rounds.confirming(once);
  EXPECT_EQ(again[static_cast<size_t>(once.findings[0].node)], once.findings[0].to);
  Sample good = figures.samples.front();
  good.bytes_per_s = 1e9;
  figures.samples.push_back(good);
  EXPECT_TRUE(diagnose(figures).findings.empty());
}

}  // namespace
}  // namespace horing::check
