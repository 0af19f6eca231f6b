// What people and programs read.
#include "horing_check/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../../temporary_folder.h"
#include "horing_check/baseline.h"
#include "horing_check/collectives.h"
#include "horing_check/pair_meter.h"
#include "horing_check/reach.h"
#include "simulated_cluster.h"
#include "topology/hwloc_graph.h"

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
  EXPECT_TRUE(says(text, "verdict: nothing is slower than the others\n")) << text;
  EXPECT_TRUE(says(text, "good: 8 of 8 nodes: node[0-7]")) << text;
  EXPECT_TRUE(says(heatMap(report), "Nothing is slower"));
}

TEST(Verdict, SaysWhatNoiseMayHide) {
  SimulatedCluster cluster(8, 1);
  Report report = reportOf(cluster, 8);
  report.verdict.least_loss = 0.53;
  const std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "slower by less than 53 % cannot be detected\n")) << text;
  EXPECT_TRUE(
      says(text, "verdict: nothing is slower than the others, as far as figures that scatter so much"))
      << text;
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

TEST(Verdict, NamesWhatLosesPackets) {
  SimulatedCluster cluster(8, 1);
  cluster.loseSent(2, 0.02), cluster.loseReceived(2, 0.04), cluster.losePath(4, 5, 0.05);
  const Report report = reportOf(cluster, 8);
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
  const std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "node2 loses ") && says(text, " % of what it sends and ")) << text;
  EXPECT_TRUE(says(text, " % of what it receives (seen with 7 partners)")) << text;
  EXPECT_TRUE(says(text, "node4 to node5: ") && says(text, " % of what is sent is lost")) << text;
  const auto json = nlohmann::json::parse(reportToJson(report));
  EXPECT_EQ(json["findings"][0]["quantity"], "loss");
  EXPECT_NEAR(json["findings"][0]["factor"].get<double>(), 0.02, 0.01);
  EXPECT_EQ(json["samples"][0]["segments"], 700);
}

TEST(Verdict, SaysOnceWhatAFirewallCutsOff) {
  Report report;
  report.names = {"a0", "a4"};
  report.blocked = {{"a0", "a1"}, {"a1", "a2"}, {"a2", "a3"}, {"a2", "a4"}, {"a3", "a4"}};
  report.left_out = {"a1", "a2", "a3"};
  const std::string text = verdictText(report);
  for (const char* line : {"a1 was left out: no connection between it and a[0,2] came about\n",
                           "a2 was left out: no connection between it and a[3-4] came about\n",
                           "a3 was left out: no connection between it and a4 came about\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(text.find(kReachAdvice), text.rfind(kReachAdvice)) << text;
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
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

TEST(Verdict, NamesAnUplinkInPlaceOfTheNodesThatShareIt) {
  SimulatedCluster cluster(12, 1);
  cluster.shareUplink({4, 5, 6}, 1);
  const Report report = reportOf(cluster, 12);
  const std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "node[4-6] send at ")) << text;
  EXPECT_TRUE(says(text, "node[4-6] receive at ")) << text;
  EXPECT_TRUE(says(text, "but not among themselves: look at the uplink or switch that they share")) << text;
  EXPECT_FALSE(says(text, "look at its adapter")) << text;
  const auto json = nlohmann::json::parse(reportToJson(report));
  EXPECT_EQ(json["uplinks"][0]["nodes"], (std::vector<std::string>{"node4", "node5", "node6"}));
  EXPECT_NEAR(json["uplinks"][0]["factor"].get<double>(), 1.0 / 3, 0.05);
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
}

// Collectives of a ring whose sender 2 is slow, as the simulation expects them.
Report withCollectives(Report report, double seconds, double good_seconds) {
  const size_t nodes = report.names.size();
  const auto expected = [&](size_t of, bool with_slow_sides) {
    return expectedSeconds(Collective::kAllReduce, 4 << 20, of, report.verdict, with_slow_sides).take();
  };
  CollectiveTime time{"all_reduce", seconds, expected(nodes, false)};
  if (good_seconds > 0) {
    time.with_slow_s = expected(nodes, true);
    time.good_s = good_seconds, time.good_expected_s = expected(nodes - 1, false);
  }
  report.collectives = {4 << 20, {time}, ""};
  return report;
}

TEST(Collectives, TakeAsLongAsTheSlowestSideOfARing) {
  SimulatedCluster clean(8, 1, {0, 0}), slow(8, 1, {0, 0});
  slow.slowSender(2, 0.4);
  const Verdict good = clean.check(), bad = slow.check();
  const double seconds = expectedSeconds(Collective::kAllReduce, 64 << 20, 8, good, false).take();
  EXPECT_NEAR(seconds, 2 * 7.0 / 8 * (64 << 20) / good.bytes_per_s, 0.05 * seconds);
  EXPECT_DOUBLE_EQ(expectedSeconds(Collective::kAllReduce, 64 << 20, 8, good, true).take(), seconds);
  EXPECT_NEAR(expectedSeconds(Collective::kAllReduce, 64 << 20, 8, bad, true).take(), seconds / 0.4,
              0.05 * seconds);
}

TEST(Collectives, SayWhatASlowNodeCostsAndWhatTheOthersReach) {
  SimulatedCluster cluster(8, 1);
  cluster.slowSender(2, 0.4);
  const Report pairs = reportOf(cluster, 8);
  const double seconds = expectedSeconds(Collective::kAllReduce, 4 << 20, 8, pairs.verdict, true).take();
  const double good_seconds =
      expectedSeconds(Collective::kAllReduce, 4 << 20, 7, pairs.verdict, false).take() / 0.97;
  const Report report = withCollectives(pairs, seconds, good_seconds);
  std::string text = verdictText(report);
  EXPECT_TRUE(says(text, "collectives of 4 MiB on rings of all 8 nodes, ")) << text;
  EXPECT_TRUE(says(text, "  all_reduce: 4")) << text;
  EXPECT_TRUE(says(text, "; node2 explains 100 % of the loss; without node2: 97 %\n")) << text;
  // Twice as slow as the simulation with the slow node: something else costs time, too.
  text = verdictText(withCollectives(pairs, 2 * seconds, good_seconds));
  EXPECT_TRUE(says(text, "; node2 explains 3") || says(text, "; node2 explains 4")) << text;
  const auto json = nlohmann::json::parse(reportToJson(report))["collectives"];
  EXPECT_EQ(json["bytes"], 4 << 20);
  EXPECT_EQ(json["times"][0]["collective"], "all_reduce");
  EXPECT_EQ(json["times"][0]["seconds"], seconds);
  EXPECT_EQ(json["times"][0]["expected_seconds_with_slow_nodes"], seconds);
  EXPECT_EQ(json["times"][0]["good_nodes"]["seconds"], good_seconds);
}

TEST(Collectives, BlameNobodyIfAllNodesAreAlike) {
  SimulatedCluster cluster(8, 1);
  const Report pairs = reportOf(cluster, 8);
  const std::string text = verdictText(withCollectives(pairs, 100, 0));
  EXPECT_TRUE(says(text, " expected)\n")) << text;
  EXPECT_FALSE(says(text, "explain") || says(text, "without")) << text;
  EXPECT_TRUE(says(text, "verdict: nothing is slower than the others")) << text;
  Report no_simulation = withCollectives(pairs, 100, 0);
  no_simulation.collectives.times[0].good_s = 90;
  EXPECT_FALSE(says(verdictText(no_simulation), "without"));
  Report none = pairs;
  none.collectives.left_out = "there was no time";
  EXPECT_TRUE(says(verdictText(none), "collectives: not measured: there was no time\n"));
}

// A ring crosses an uplink once in each direction, however many nodes are behind it.
TEST(Collectives, DoNotTakeNodesBehindASlowUplinkForSlow) {
  SimulatedCluster cluster(8, 1, {0, 0});
  cluster.slowSender(2, 0.4);
  Verdict verdict = cluster.check();
  const auto seconds = [&](bool with_slow_sides) {
    return expectedSeconds(Collective::kAllReduce, 4 << 20, 8, verdict, with_slow_sides).take();
  };
  EXPECT_GT(seconds(true), 2 * seconds(false));
  verdict.uplinks.push_back({.part = Part::kSends, .nodes = {2}, .factor = 0.4});
  EXPECT_DOUBLE_EQ(seconds(true), seconds(false));
}

Report laterReport(const Report& before, const std::string& file, double of_all, double of_node2) {
  std::ofstream(file) << reportToJson(before);
  Report now = before;
  for (Sample& sample : now.figures.samples) sample.bytes_per_s *= sample.from == 2 ? of_node2 : of_all;
  now.verdict = diagnose(now.figures);
  now.baseline = file;
  now.losses = lossesSince(readBaseline(file).take(), baselineOf(now.names, now.figures, now.verdict),
                           now.verdict.scatter);
  return now;
}

TEST(Baseline, ShowsWhatAllNodesHaveLostAndOneNode) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() / "before.json";
  SimulatedCluster cluster(8, 1);
  const Report before = reportOf(cluster, 8);
  const Report same = laterReport(before, file, 0.97, 0.97);
  EXPECT_TRUE(same.losses.empty());
  EXPECT_TRUE(says(verdictText(same), "compared with " + file + ": nothing has become slower\n"));
  const Report all = laterReport(before, file, 0.6, 0.6);
  EXPECT_EQ(all.losses.size(), 1u) << "each node has lost as much";
  EXPECT_TRUE(says(verdictText(all), "  the median of all nodes is 60 % of the rate then\n"))
      << verdictText(all);
  EXPECT_EQ(outcomeOf(all), Outcome::kSlow) << "though no node is slower than the others";
  const Report one = laterReport(before, file, 1, 0.8);
  ASSERT_EQ(one.losses.size(), 1u);
  EXPECT_TRUE(says(verdictText(one), "  node2 sends at 80 % of the rate then\n")) << verdictText(one);
  EXPECT_EQ(nlohmann::json::parse(reportToJson(one))["losses"][0]["node"], "node2");
  // Nodes that were not there before are not compared.
  const Baseline then = baselineOf(before.names, before.figures, before.verdict);
  Report others = laterReport(before, file, 1, 0.5);
  for (std::string& name : others.names) name += "x";
  EXPECT_TRUE(lossesSince(then, baselineOf(others.names, others.figures, others.verdict), 0).empty());
}

// 40 rounds of eight nodes, in which one sinks from a point on.
Report soakReport(int from_round, double factor) {
  Report report;
  for (int node = 0; node < 8; ++node) report.names.push_back("node" + std::to_string(node));
  report.figures.nodes = 8;
  Rounds rounds(8, true, 1);
  for (int round = 0; round < 40; ++round) {
    const Matching partner = rounds.next(round);
    for (int to = 0; to < 8; ++to) {
      const int from = partner[static_cast<size_t>(to)];
      const double rate = 1e9 * (from == 3 && round >= from_round ? factor : 1);
      report.figures.samples.push_back({from, to, rate, 20e-6, 0, 1'000'000, round});
    }
  }
  report.soaked = true;
  report.verdict = diagnose(report.figures);
  report.sunk = lossesWithin(report.names, report.figures);
  return report;
}

TEST(Soak, SaysWhatWasComparedAndWhatSank) {
  const std::string calm = verdictText(soakReport(40, 1));
  EXPECT_TRUE(says(calm, "soak: 320 MB compared byte by byte, 0 wrong; no rate sank\n")) << calm;
  // Too late to be seen in the medians of all rounds.
  const Report hot = soakReport(28, 0.7);
  EXPECT_TRUE(says(verdictText(hot), "rates sank:\n  node3 sends at 70 % of the rate at the beginning\n"))
      << verdictText(hot);
  EXPECT_EQ(outcomeOf(hot), Outcome::kSlow);
  EXPECT_EQ(nlohmann::json::parse(reportToJson(hot))["sunk"].size(), 1u);
}

TEST(Baseline, OfAnotherKindOfFileIsAnError) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() / "before.json";
  for (const char* text :
       {"", "{}", "x", R"({"nodes":["a"],"bytes_per_s":1,"samples":[{"from":0,"to":1,"bytes_per_s":1}]})"}) {
    std::ofstream(file) << text;
    EXPECT_FALSE(readBaseline(file).ok()) << text;
  }
  EXPECT_FALSE(readBaseline(file + ".none").ok());
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
  report.missing = {2};
  EXPECT_EQ(goodNodes(report), (std::vector<int>{0, 1}));
  EXPECT_EQ(goodHosts(report), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(says(verdictText(report), "perhaps")) << "a node is missing: " << verdictText(report);
  report.missing.clear();
  EXPECT_TRUE(says(verdictText(report), "perhaps, but there are too few measurements"))
      << verdictText(report);
}

TEST(Hosts, OfSeveralNodesAreListedOnceIfAllAreGood) {
  Report report;
  report.names = {"a/0", "a/1", "b/2", "b/3"};
  report.figures.samples = {{0, 1}, {1, 2}, {2, 3}};
  EXPECT_EQ(goodHosts(report), (std::vector<std::string>{"a", "b"}));
  report.missing = {3};
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

TEST(NodeFactsDiffer, NotWhereTheyMayNotBeRead) {
  const NodeFacts readable = {{"BIOS", "1.2"}}, other = {{"BIOS", "1.1"}}, hidden = {{"BIOS", kNoRights}};
  Report report;
  report.names = {"a", "b", "c", "d"};
  const std::vector<NodeFacts> of_nodes = {hidden, readable, readable, hidden};
  EXPECT_TRUE(differences(of_nodes).empty());
  report.unreadable = unreadable(of_nodes);
  EXPECT_NE(verdictText(report).find("  BIOS: not compared on a,d, no right to read it\n"), std::string::npos)
      << verdictText(report);
  EXPECT_TRUE(differences({hidden, hidden}).empty());
  const std::vector<Difference> found = differences({hidden, hidden, readable, readable, other});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].usual, "1.2") << "most of those that read it, not of all";
  EXPECT_EQ(found[0].nodes, std::vector{4});
}

TEST(NodeFactsDiffer, AfterTheyWereSent) {
  const NodeFacts facts = gatherNodeFacts(graphOfThisMachine());
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
