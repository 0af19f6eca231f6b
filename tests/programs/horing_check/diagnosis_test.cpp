// What is blamed in clusters whose faults are known.
#include <gtest/gtest.h>

#include <numeric>

#include "simulated_cluster.h"

namespace horing::check {
namespace {

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

TEST(Diagnosis, OfTwoNodesBlamesThePath) {
  SimulatedCluster cluster(2, 1), clean(2, 2);
  cluster.slowSender(0, 0.5);
  EXPECT_EQ(blamed(cluster.check()), "0>1");
  EXPECT_EQ(blamed(clean.check()), "");
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

TEST(Diagnosis, RaisesNoFalseAlarm) {
  for (const int nodes : {2, 3, 4, 7, 8, 16, 40}) {
    const Marks marks = plant(nodes, 0, 0, 200);
    EXPECT_EQ(marks.right, marks.runs) << nodes << " nodes";
    const Marks noisy = plant(nodes, 0, 0, 100, {0.06, 0.05});
    EXPECT_EQ(noisy.right, noisy.runs) << nodes << " noisy nodes";
  }
  const Marks large = plant(1024, 0, 0, 5);
  EXPECT_EQ(large.right, large.runs);
}

TEST(Diagnosis, FindsAFifthLost) {
  for (const int nodes : {4, 8, 16}) {
    SCOPED_TRACE(nodes);
    // Of four nodes' eight sides two are of one node: what is usual is known less well.
    expectRight(plant(nodes, 1, 0.2, 300), nodes == 4 ? 0.95 : 0.99);
  }
  for (const int nodes : {8, 16})
    for (const int faults : {2, 3}) {
      SCOPED_TRACE(std::to_string(faults) + " faults on " + std::to_string(nodes));
      expectRight(plant(nodes, faults, 0.3, 300), 0.99);
    }
}

// Three of ten figures are much too low, as on a machine that others use.
TEST(Diagnosis, IsRightOnABusyMachine) {
  const Marks clean = plant(8, 0, 0, 200, {0.02, 0.3});
  expectRight(clean, 0.99);
  SCOPED_TRACE("half lost");
  expectRight(plant(8, 1, 0.5, 200, {0.02, 0.3}), 0.95);
}

TEST(Diagnosis, FindsMostTenthsLost) {
  SCOPED_TRACE("8 nodes");
  const Marks marks = plant(8, 1, 0.1, 400, {0.01, 0.01});
  EXPECT_GE(marks.right, 0.9 * marks.runs);
}

TEST(Diagnosis, FindsOneToTwentyOfManyNodes) {
  for (const int faults : {1, 5, 20}) {
    SCOPED_TRACE(faults);
    expectRight(plant(1024, faults, 0.2, 3), 0.99);
    expectRight(plant(1024, faults, 0.5, 3), 0.99);
  }
}

}  // namespace
}  // namespace horing::check
