// Lossy nodes and paths, from the segments that are sent again.
#include <gtest/gtest.h>

#include "horing_check/loss_diagnosis.h"
#include "horing_check/tcp_segments.h"
#include "simulated_cluster.h"

namespace horing::check {
namespace {

std::string lossy(SimulatedCluster& cluster) {
  const Verdict verdict = cluster.check();
  EXPECT_EQ(blamed(verdict), "");
  return blamed(verdict, Quantity::kLoss);
}

TEST(Losses, OfANodeAreToldFromThoseOfAPath) {
  for (const int nodes : {8, 16, 32})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      SimulatedCluster sender(nodes, seed), receiver(nodes, seed), both(nodes, seed), clean(nodes, seed);
      sender.loseSent(3, 0.01);
      receiver.loseReceived(5, 0.01);
      both.loseSent(2, 0.02), both.loseReceived(2, 0.02);
      EXPECT_EQ(lossy(sender), "3 sends") << nodes << " " << seed;
      EXPECT_EQ(lossy(receiver), "5 receives") << nodes << " " << seed;
      EXPECT_EQ(lossy(both), "2 sends, 2 receives") << nodes << " " << seed;
      EXPECT_EQ(lossy(clean), "") << nodes << " " << seed;
    }
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SimulatedCluster path(8, seed);
    path.losePath(1, 6, 0.01);
    EXPECT_EQ(lossy(path), "1>6") << seed;
  }
}

TEST(Losses, OfSeveralNodesAreAllNamed) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SimulatedCluster cluster(16, seed);
    cluster.loseReceived(3, 0.01), cluster.loseSent(7, 0.01), cluster.loseReceived(12, 0.03);
    EXPECT_EQ(lossy(cluster), "3 receives, 7 sends, 12 receives") << seed;
  }
}

TEST(Losses, OfOneInAThousandAreFoundMostly) {
  int found = 0, wrong = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SimulatedCluster cluster(8, seed);
    cluster.loseReceived(5, 0.001);
    const std::string names = lossy(cluster);
    found += names == "5 receives";
    wrong += names != "5 receives" && !names.empty();
  }
  EXPECT_GE(found, 85);
  EXPECT_LE(wrong, 2);
}

TEST(Losses, BeforeASlowLinkAreNotReportedUnlessTheyAreMany) {
  for (const double share : {0.002, 0.03}) {
    SimulatedCluster cluster(8, 1);
    cluster.slowReceiver(3, 0.4), cluster.loseReceived(3, share), cluster.loseSent(3, 0.005);
    const Verdict verdict = cluster.check();
    EXPECT_EQ(blamed(verdict), "3 receives");
    EXPECT_EQ(blamed(verdict, Quantity::kLoss), share < 0.01 ? "3 sends" : "3 sends, 3 receives");
  }
}

// A quarter and more of all samples are lossy: what is usual then is known well.
TEST(Losses, AreFoundMoreOftenThanChanceAmongMany) {
  int right = 0;
  for (unsigned seed = 5000; seed < 5100; ++seed) {
    SimulatedCluster cluster(8, seed, {0.02, 0.05});
    cluster.overflow(0.3);
    cluster.loseReceived(static_cast<int>(seed % 8), 0.0015);
    right += blamed(cluster.check(), Quantity::kLoss) == std::to_string(seed % 8) + " receives" ? 1 : 0;
  }
  EXPECT_GE(right, 33);
}

// A queue that overflows now and then is no fault of a node.
TEST(Losses, InBurstsAreBlamedOnNobody) {
  int blamed_any = 0;
  for (unsigned seed = 1; seed <= 50; ++seed)
    for (const double samples : {0.02, 0.1, 0.5}) {
      SimulatedCluster cluster(8, seed);
      cluster.overflow(samples);
      blamed_any += !lossy(cluster).empty();
    }
  EXPECT_LE(blamed_any, 1);  // of 150
  int blamed_large = 0;
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SimulatedCluster cluster(64, seed);
    cluster.overflow(0.02);
    blamed_large += !lossy(cluster).empty();
  }
  EXPECT_EQ(blamed_large, 0);
}

TEST(Losses, AreUnknownWithoutCounters) {
  Figures figures{3, {}};
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to)
      if (from != to)
        figures.samples.push_back({.from = from, .to = to, .segments = 0, .segments_resent = 9});
  std::vector<Finding> findings;
  findLosses(figures, findings);
  EXPECT_TRUE(findings.empty());
}

// What other connections of the nodes lose says nothing about the transport that moved the data.
TEST(Losses, OfOtherConnectionsBesideRdmaAreNotCounted) {
  for (const uint64_t megabytes : {1, 1000}) {
    Figures figures{8, {}};
    for (int from = 0; from < 8; ++from)
      for (int to = 0; to < 8; ++to)
        if (from != to)
          figures.samples.push_back({.from = from,
                                     .to = to,
                                     .bytes = megabytes << 20,
                                     .segments = 200,
                                     .segments_resent = from == 3 ? 10u : 0u});
    std::vector<Finding> findings;
    findLosses(figures, findings);
    EXPECT_EQ(findings.size(), megabytes == 1 ? 1u : 0u);
  }
}

TEST(TcpSegments, AreReadByTheNamesOfTheCounters) {
  const TcpSegments read = tcpSegmentsFrom(
      "Ip: Forwarding OutSegs\nIp: 1 7\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: 200 5000 12 0\nUdp: "
      "OutSegs\nUdp: 1\n",
      "TcpExt: SyncookiesSent TCPDSACKRecvSegs\nTcpExt: 3 4\nIpExt: InNoRoutes\nIpExt: 8\n");
  EXPECT_EQ(read.sent, 5000u);
  EXPECT_EQ(read.resent, 12u);
  EXPECT_EQ(read.arrived_twice, 4u);
  EXPECT_EQ(read.lost(), 8u);
  for (const char* text :
       {"", "Tcp:", "Tcp: OutSegs\n", "Tcp: OutSegs RetransSegs\nTcp: x\n", "OutSegs 5\n"}) {
    EXPECT_EQ(tcpSegmentsFrom(text, text).sent, 0u) << text;
    EXPECT_EQ(tcpSegmentsFrom(text, text).resent, 0u) << text;
    EXPECT_EQ(tcpSegmentsFrom(text, text).arrived_twice, 0u) << text;
  }
  const TcpSegments since = TcpSegments{10, 3, 9}.since({4, 5, 2});
  EXPECT_EQ(since.sent, 6u);
  EXPECT_EQ(since.resent, 0u);
  EXPECT_EQ(since.arrived_twice, 7u);
  EXPECT_EQ(since.lost(), 0u) << "of what was sent earlier";
}

}  // namespace
}  // namespace horing::check
