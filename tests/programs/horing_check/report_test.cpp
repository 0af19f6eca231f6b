// What people and programs read.
#include "horing_check/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "horing_check/pair_meter.h"
#include "simulated_cluster.h"

namespace horing::check {
namespace {

Report reportOf(SimulatedCluster& cluster, int nodes) {
  Report report;
  for (int node = 0; node < nodes; ++node) report.names.push_back("node" + std::to_string(node));
  report.verdict = cluster.check();
  report.figures = cluster.figures();
  return report;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HostList, IsAsSlurmWritesIt) {
  EXPECT_EQ(hostList({}), "");
  EXPECT_EQ(hostList({"gw"}), "gw");
  EXPECT_EQ(hostList({"node7"}), "node7");
  EXPECT_EQ(hostList({"node0", "node1", "node2", "node4", "gw", "node9", "node10"}), "node[0-2,4,9-10],gw");
  EXPECT_EQ(hostList({"n08", "n09", "n10", "n7"}), "n[08-10],n7");
  EXPECT_EQ(hostList({"a1-ib3", "a1-ib4"}), "a1-ib[3-4]");
  EXPECT_EQ(hostList({"x20261128123456789"}), "x20261128123456789");
}

TEST(Verdict, OfACleanClusterBlamesNobody) {
  SimulatedCluster cluster(8, 1);
  const Report report = reportOf(cluster, 8);
  EXPECT_EQ(outcomeOf(report), Outcome::kGood);
  const std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "verdict: nothing is slower than the others")) << text;
  EXPECT_TRUE(says(text, "good: 8 of 8 nodes: node[0-7]")) << text;
  EXPECT_TRUE(says(heatMap(report), "Nothing is slower"));
}

TEST(Verdict, NamesNodesPathsAndGoodHosts) {
  SimulatedCluster cluster(8, 1);
  cluster.slowSender(2, 0.5), cluster.slowReceiver(2, 0.6);
  cluster.slowPath(4, 5, 0.3), cluster.slowPath(4, 6, 0.3);
  cluster.corrupt(0, 1);
  const Report report = reportOf(cluster, 8);
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
  const std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "node2 sends at 5") && says(text, "% and receives at 5")) << text;
  EXPECT_TRUE(says(text, "node4 to node5: 3")) << text;
  EXPECT_TRUE(says(text, "node0 to node1: wrong bytes arrive")) << text;
  EXPECT_EQ(hostListOf(report, goodNodes(report)), "node[1,3,5-7]")
      << "of 4>5 and 4>6 the end that both have, of 0>1 one";
  const std::string picture = heatMap(report);
  EXPECT_TRUE(says(picture, "To be looked at: node[0,2,4]"));
  const auto json = nlohmann::json::parse(reportToJson(report));
  EXPECT_EQ(json["good_list"], "node[1,3,5-7]");
  EXPECT_EQ(json["outcome"], 1);
  EXPECT_EQ(json["samples"].size(), report.figures.samples.size());
  EXPECT_EQ(json["findings"][1]["node"], "node2");
}

TEST(Verdict, OfACheckThatEndedEarlyIsNoAcquittal) {
  SimulatedCluster cluster(4, 1);
  Report report = reportOf(cluster, 4);
  report.cut_short = "node3 is gone";
  EXPECT_EQ(outcomeOf(report), Outcome::kIncomplete);
  const std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "the check ended early: node3 is gone")) << text;
  EXPECT_FALSE(says(text, "nothing is slower")) << text;
}

TEST(Verdict, OfDoubtIsSaidAsDoubt) {
  Report report;
  report.names = {"a", "b", "c"};
  report.verdict.bytes_per_s = 1e9;
  report.verdict.findings.push_back({Quantity::kRate, Part::kSends, 1, -1, 0.5, 2, false});
  EXPECT_EQ(outcomeOf(report), Outcome::kGood);
  EXPECT_EQ(goodNodes(report).size(), 0u) << "none was measured";
  report.figures.samples = {{0, 1}, {1, 2}};
  EXPECT_EQ(goodNodes(report).size(), 3u);
  report.failed = 2;
  EXPECT_EQ(goodNodes(report), (std::vector<int>{0, 1}));
  EXPECT_EQ(goodHosts(report), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(says(verdictText(report), "perhaps, but too little was measured")) << verdictText(report);
}

TEST(Hosts, OfSeveralNodesAreListedOnceIfAllAreGood) {
  Report report;
  report.names = {"a/0", "a/1", "b/2", "b/3"};
  report.figures.samples = {{0, 1}, {1, 2}, {2, 3}};
  EXPECT_EQ(goodHosts(report), (std::vector<std::string>{"a", "b"}));
  report.failed = 3;
  EXPECT_EQ(goodHosts(report), (std::vector<std::string>{"a"}));
}

TEST(NodeFactsDiffer, FromWhatMostHave) {
  const NodeFacts usual = {{"MTU of r0", "9000"}, {"kernel", "6.1"}};
  NodeFacts small = usual, other = usual;
  small["MTU of r0"] = "1500";
  other.erase("kernel");
  EXPECT_TRUE(differences({usual, usual, usual}).empty());
  const std::vector<Difference> found = differences({usual, small, usual, other});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "MTU of r0");
  EXPECT_EQ(found[0].value, "1500");
  EXPECT_EQ(found[0].usual, "9000");
  EXPECT_EQ(found[0].nodes, std::vector<int>{1});
  EXPECT_EQ(found[1].value, "");
  EXPECT_EQ(found[1].nodes, std::vector<int>{3});
  EXPECT_EQ(differences({small, usual})[0].nodes, std::vector<int>{1})
      << "as frequent: the lower node's is usual";
}

TEST(NodeFactsDiffer, AfterTheyWereSent) {
  const NodeFacts facts = gatherNodeFacts();
  EXPECT_TRUE(facts.contains("processors"));
  EXPECT_TRUE(facts.contains("memory"));
  EXPECT_EQ(factsFromText(factsToText(facts)), facts);
  EXPECT_EQ(factsFromText(factsToText({{"a\nb", "c\td"}})), (NodeFacts{{"a?b", "c?d"}}));
  EXPECT_TRUE(factsFromText("half").empty());
}

TEST(Data, AreComparedByteByByte) {
  std::vector<std::byte> is(100, std::byte{1}), should_be = is;
  EXPECT_EQ(countWrong(is, should_be), 0u);
  is[0] = is[99] = std::byte{2};
  EXPECT_EQ(countWrong(is, should_be), 2u);
}

}  // namespace
}  // namespace horing::check
