// How often thousands of simulated clusters with noise are judged right.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "simulated_cluster.h"

namespace horing::check {
namespace {

struct Marks {
  int right = 0, wrong_alarms = 0, runs = 0;
};

// `faults` senders, receivers or, where all pairs are measured, paths have lost the share `loss`.
Marks plant(int nodes, int faults, double loss, int runs, Noise noise = {}) {
  Marks marks;
  for (int run = 0; run < runs; ++run) {
    SimulatedCluster cluster(nodes, static_cast<unsigned>(run), noise);
    std::mt19937 random(static_cast<unsigned>(1000 + run));
    std::vector<int> order(static_cast<size_t>(nodes));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::set<std::string> planted;
    for (int fault = 0; fault < faults; ++fault) {
      const int node = order[static_cast<size_t>(fault)],
                to = order[order.size() - 1 - static_cast<size_t>(fault)];
      const auto kind = random() % (nodes <= kMostNodesForAllPairs ? 3 : 2);
      if (kind == 0) cluster.slowSender(node, 1 - loss);
      if (kind == 1) cluster.slowReceiver(node, 1 - loss);
      if (kind == 2) cluster.slowPath(node, to, 1 - loss);
      planted.insert(std::to_string(node) + (kind == 0   ? " sends"
                                             : kind == 1 ? " receives"
                                                         : ">" + std::to_string(to)));
    }
    const Verdict verdict = cluster.check();
    std::set<std::string> found;
    for (const Finding& finding : verdict.findings)
      if (finding.confirmed) found.insert(blamed({.findings = {finding}}, finding.quantity));
    marks.right += found == planted ? 1 : 0;
    marks.wrong_alarms += std::includes(planted.begin(), planted.end(), found.begin(), found.end()) ? 0 : 1;
    ++marks.runs;
  }
  return marks;
}

void expectRight(const Marks& marks, double least_share) {
  EXPECT_GE(marks.right, least_share * marks.runs);
  EXPECT_LE(marks.wrong_alarms, (1 - least_share) * marks.runs);
}

TEST(ManyClusters, RaisesNoFalseAlarm) {
  for (const int nodes : {2, 3, 4, 7, 8, 16, 40}) {
    const Marks marks = plant(nodes, 0, 0, 200);
    EXPECT_EQ(marks.right, marks.runs) << nodes << " nodes";
    const Marks noisy = plant(nodes, 0, 0, 100, {0.06, 0.05});
    EXPECT_EQ(noisy.right, noisy.runs) << nodes << " noisy nodes";
  }
  const Marks large = plant(1024, 0, 0, 5);
  EXPECT_EQ(large.right, large.runs);
}

TEST(ManyClusters, FindsAFifthLost) {
  for (const int nodes : {4, 8, 16}) {
    SCOPED_TRACE(nodes);
    // Two of the eight sides of four nodes are of one node: the usual value is less certain.
    expectRight(plant(nodes, 1, 0.2, 300), nodes == 4 ? 0.95 : 0.99);
  }
  for (const int nodes : {8, 16})
    for (const int faults : {2, 3}) {
      SCOPED_TRACE(std::to_string(faults) + " faults on " + std::to_string(nodes));
      expectRight(plant(nodes, faults, 0.3, 300), 0.99);
    }
}

// Three of ten figures are much too low, as on a machine that others use.
TEST(ManyClusters, IsRightOnABusyMachine) {
  const Marks clean = plant(8, 0, 0, 200, {0.02, 0.3});
  expectRight(clean, 0.99);
  SCOPED_TRACE("half lost");
  expectRight(plant(8, 1, 0.5, 200, {0.02, 0.3}), 0.95);
}

TEST(ManyClusters, FindsMostTenthsLost) {
  SCOPED_TRACE("8 nodes");
  const Marks marks = plant(8, 1, 0.1, 400, {0.01, 0.01});
  EXPECT_GE(marks.right, 0.9 * marks.runs);
}

TEST(ManyClusters, FindsOneToTwentyOfManyNodes) {
  for (const int faults : {1, 5, 20}) {
    SCOPED_TRACE(faults);
    expectRight(plant(1024, faults, 0.2, 3), 0.99);
    expectRight(plant(1024, faults, 0.5, 3), 0.99);
  }
}

// Pauses of all nodes slow whole rounds, so that nobody is slow with all others.
TEST(ManyClusters, TakesNoBusyMachineForASlowHalf) {
  for (const int nodes : {4, 6, 8, 16})
    for (const double pauses : {0.2, 0.5, 0.8})
      for (unsigned seed = 1; seed <= 25; ++seed) {
        SimulatedCluster cluster(nodes, seed, {0.05, 0.3});
        cluster.pause(pauses);
        EXPECT_EQ(blamed(cluster.check()), "") << nodes << " nodes, " << pauses << ", " << seed;
      }
}

// A pause looks as if all pairs crossed it, which they do in two of seven rounds. It goes by, and moves more or less each time.
TEST(ManyClusters, FindsAnUplinkOfHalfOfTheNodesOnABusyMachine) {
  for (const bool are_bursts : {false, true})
    for (const double pauses : {0.1, 0.25, 0.4}) {
      int right = 0, confirmed = 0;
      for (unsigned seed = 1; seed <= 200; ++seed) {
        SimulatedCluster cluster(8, seed, {0.02, 0.05});
        const int first = 1 + static_cast<int>(seed % 4);
        cluster.shareUplink({first, first + 1, first + 2, first + 3}, 2);
        if (are_bursts)
          cluster.pauseInBursts(pauses);
        else
          cluster.pause(pauses, 0.1, 0.7);
        std::string group;
        for (int node = first; node < first + 4; ++node) group += std::to_string(node) + " ";
        const Verdict verdict = cluster.check();
        if (uplinksOf(verdict) != group + "send, " + group + "receive") continue;
        ++right;
        confirmed += std::ranges::all_of(verdict.uplinks, &Uplink::confirmed) ? 1 : 0;
      }
      SCOPED_TRACE(std::to_string(pauses) + (are_bursts ? ", in bursts" : ""));
      EXPECT_GE(right, 180);
      EXPECT_GE(confirmed, pauses < 0.4 ? 180 : 150);
    }
}

// The slow node is doubtful longer than the uplink, and so are its paths to the nodes behind that: these must not be its only judges.
TEST(ManyClusters, FindsASlowNodeBesideAnUplink) {
  for (const int nodes : {24, 32, 64})
    for (unsigned seed = 1; seed <= 40; ++seed) {
      SimulatedCluster cluster(nodes, seed);
      const int first = 1 + static_cast<int>(seed) % (nodes - 8), slow = first + 6;
      cluster.shareUplink({first, first + 1, first + 2, first + 3}, 1);
      cluster.slowSender(slow, 0.5);
      cluster.slowReceiver(slow, 0.5);
      const std::string found = ", " + blamed(cluster.check());
      EXPECT_NE(found.find(", " + std::to_string(slow) + " "), std::string::npos)
          << nodes << " " << seed << found;
    }
}

// Of pauses of single rounds, and of bursts, of which all rounds are slow, whoever meets.
TEST(ManyClusters, TakesNoPausesForAnUplink) {
  for (const int nodes : {4, 8, 16})
    for (unsigned seed = 1; seed <= 200; ++seed) {
      SimulatedCluster rounds(nodes, seed), bursts(nodes, seed);
      rounds.pause(0.2 + 0.1 * (seed % 5), 0.1, 0.7);
      bursts.pauseInBursts(0.1 + 0.1 * (seed % 5));
      for (const Uplink& uplink : rounds.check().uplinks)
        EXPECT_FALSE(uplink.confirmed) << nodes << " " << seed;
      for (const Uplink& uplink : bursts.check().uplinks)
        EXPECT_FALSE(uplink.confirmed) << nodes << " " << seed << ", in bursts";
    }
}

// The few that are not slow seem to be those that do not cross a link, in several rounds in a row.
TEST(ManyClusters, TakesNoPausesOfNearlyAllPairsForAnUplink) {
  for (const int nodes : {8, 16})
    for (unsigned seed = 1; seed <= 200; ++seed) {
      SimulatedCluster cluster(nodes, seed);
      cluster.pauseInBursts(0.1 + 0.1 * (seed % 5), 0.1, 0.7, 0.9);
      for (const Uplink& uplink : cluster.check().uplinks)
        EXPECT_FALSE(uplink.confirmed) << nodes << " " << seed;
    }
}

}  // namespace
}  // namespace horing::check
