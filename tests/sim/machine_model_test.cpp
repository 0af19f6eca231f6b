#include "sim/machine_model.h"

#include <gtest/gtest.h>

#include "sim/wire_bound.h"

namespace horing {
namespace {

TEST(MachineModel, ReadsWhatItPrints) {
  const char* text =
      "# four small nodes\n"
      "nodes = 4\n  ranks_per_node=2   # each\n\n"
      "nic = node\r\ninter_gbytes_per_s = 0.0625\ninter_burst_bytes = 18000\ncores = 2\ncores_of = "
      "machine\nfold_gbytes_per_s = 1e1";
  const Result<MachineModel> read = parseMachine(text, "four.machine");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().ranks(), 8);
  EXPECT_EQ(read.value().nic, Owner::kNode);
  EXPECT_EQ(read.value().cores_of, Owner::kMachine);
  EXPECT_EQ(read.value().between.gbytes_per_s, 0.0625);
  EXPECT_EQ(read.value().between.burst_bytes, 18000);
  EXPECT_EQ(read.value().fold_gbytes_per_s, 10);
  EXPECT_EQ(read.value().between.latency_us, MachineModel().between.latency_us);
  const std::string printed = describeMachine(read.value());
  const Result<MachineModel> again = parseMachine(printed, "printed");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(describeMachine(again.value()), printed);
  EXPECT_NE(printed.find("nodes = 4\n"), std::string::npos);
}

TEST(MachineModel, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"nodes = 2\nnodes = 3", "m, line 2: 'nodes' is given twice"},
      {"nodes 2", "m, line 1: expected 'key = value', got 'nodes 2'"},
      {"nods = 2", "there is no key 'nods'"},
      {"<system version=\"1\">", "this is XML, such as a topology file, which 'horing-topo' reads"},
      {"nodes = 0", "nodes takes a whole number from 1 to 131072, not '0'"},
      {"nodes = 2.5", "whole number"},
      {"\n\ninter_latency_us = -1", "m, line 3: inter_latency_us takes a number from 0"},
      {"cores = nan", "not 'nan'"},
      {"cores = 1e999", "not '1e999'"},
      {"cores = 2x", "not '2x'"},
      {"cores =", "not ''"},
      {"nic = core", "nic is 'rank' or 'node', not 'core'"},
      {"links = some", "links is 'both' or 'inside' or 'between', not 'some'"},
      {"\x1b[2Jcores = 1", "there is no key '?[2Jcores'"},
  };
  for (const auto& [text, message] : cases) {
    const Result<MachineModel> read = parseMachine(text, "m");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.status().message().find(message), std::string::npos) << read.status().message();
  }
}

TEST(MachineModel, SaysNothingOfLinksThatItDoesNotKnow) {
  MachineModel machine;
  machine.nodes = 1;
  machine.links = Links::kInside;
  const std::string text = describeMachine(machine);
  EXPECT_EQ(text.find("inter_latency_us ="), std::string::npos) << text;
  EXPECT_NE(text.find("# inter_latency_us: not measured"), std::string::npos) << text;
  const Result<MachineModel> read = parseMachine(text, "printed");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(checkLinksKnown(read.value()).ok());
  machine = read.value();
  machine.nodes = 2;
  EXPECT_NE(checkLinksKnown(machine).message().find("nothing of links between groups"), std::string::npos);
  machine.links = Links::kBetween;
  EXPECT_NE(checkLinksKnown(machine).message().find("nothing of links inside a group"), std::string::npos);
  machine.ranks_per_node = 1;
  EXPECT_TRUE(checkLinksKnown(machine).ok());
}

TEST(MachineModel, RefusesWhatIsNoFile) {
  EXPECT_FALSE(readMachine("/nowhere/at/all").ok());
  EXPECT_FALSE(readMachine("/").ok());
  const Result<MachineModel> endless = readMachine("/dev/zero");
  ASSERT_FALSE(endless.ok());
  EXPECT_NE(endless.status().message().find("longer than"), std::string::npos);
}

TEST(MachineModel, HasNodesThatDiffer) {
  const Result<MachineModel> read =
      parseMachine("ranks_per_node = 4, 3,1\ninter_gbytes_per_s = 10,10, 4\n", "lab");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const MachineModel& machine = read.value();
  EXPECT_EQ(machine.nodes, 3);
  EXPECT_EQ(machine.ranks_per_node, 4);
  EXPECT_EQ(machine.ranks(), 8);
  EXPECT_EQ(machine.ranksOf(1), 3);
  EXPECT_EQ(machine.between.gbytes_per_s, 10);
  EXPECT_EQ(machine.linksOf(0).sends, 1);
  EXPECT_EQ(machine.linksOf(2).receives, 0.4);
  const std::string text = describeMachine(machine);
  EXPECT_NE(text.find("ranks_per_node = 4, 3, 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("inter_gbytes_per_s = 10, 10, 4\n"), std::string::npos) << text;
  EXPECT_EQ(describeMachine(parseMachine(text, "itself").value()), text);
}

TEST(MachineModel, RefusesListsThatDoNotFitTheNodes) {
  const auto fault = [](const char* text) { return parseMachine(text, "lab").status().message(); };
  EXPECT_NE(
      fault("nodes = 4\nranks_per_node = 4, 3").find("ranks_per_node has 2 numbers, and there are 4 nodes"),
      std::string::npos);
  EXPECT_NE(fault("ranks_per_node = 4, 3\ninter_gbytes_per_s = 1, 2, 3").find("has 3 numbers"),
            std::string::npos);
  EXPECT_NE(fault("inter_gbytes_per_s = 1, 0").find("each is above 0"), std::string::npos);
  EXPECT_NE(fault("inter_gbytes_per_s = 1,").find("takes a number"), std::string::npos);
  EXPECT_NE(fault("inter_latency_us = 1, 2").find("takes a number"), std::string::npos);
}

TEST(WireBound, IsWhatTheNodeNeedsThatNeedsMost) {
  MachineModel machine;
  machine.setNodes(std::vector<int32_t>{4, 3, 1});
  machine.nic = Owner::kNode;
  machine.between.gbytes_per_s = 10;
  EXPECT_EQ(wireBound(Collective::kAllGather, 8e6, machine), 7e6 * 100) << "into the node of one rank";
  EXPECT_EQ(wireBound(Collective::kReduceScatter, 8e6, machine), 7e6 * 100) << "out of it";
  EXPECT_EQ(wireBound(Collective::kAllReduce, 9e6, machine), 4 * 9e6 / 3 * 100) << "all together";
  EXPECT_EQ(wireBound(Collective::kGather, 8e6, machine), 4e6 * 100) << "into the root's node";
  EXPECT_EQ(wireBound(Collective::kAllToAll, 8e6, machine), 4 * 4e6 * 100);
  machine.setRates(std::vector<double>{10, 10, 2.5});
  EXPECT_EQ(wireBound(Collective::kAllGather, 8e6, machine), 7e6 * 400);
  EXPECT_EQ(wireBound(Collective::kAllReduce, 9e6, machine), 9e6 * 400) << "each way over the slow link";
  EXPECT_EQ(wireBound(Collective::kBroadcast, 8e6, machine), 8e6 * 400);
  machine.setRates(std::vector<double>{10, 10, 8});
  EXPECT_EQ(wireBound(Collective::kAllReduce, 7e6, machine), 4 * 7e6 / 28 * 1000);
  machine.nic = Owner::kRank;
  EXPECT_EQ(wireBound(Collective::kAllGather, 8e6, machine), 7e6 * 125);
}

TEST(WireBound, IsWhatMustCross) {
  MachineModel machine;
  machine.nodes = 4;
  machine.ranks_per_node = 8;
  machine.between.gbytes_per_s = 10;
  EXPECT_EQ(wireBound(Collective::kAllGather, 8e6, machine), 8e6 * 3 / 4 * 100 / 8);
  EXPECT_EQ(wireBound(Collective::kAllReduce, 8e6, machine), 2 * 8e6 * 3 / 4 * 100 / 8);
  EXPECT_EQ(wireBound(Collective::kAllToAll, 8e6, machine), 8 * 8e6 * 3 / 4 * 100 / 8);
  machine.nic = Owner::kNode;
  EXPECT_EQ(wireBound(Collective::kBroadcast, 8e6, machine), 8e6 * 100);
  machine.between.burst_bytes = 1e6;
  EXPECT_EQ(wireBound(Collective::kBroadcast, 8e6, machine), 7e6 * 100);
  EXPECT_EQ(wireBound(Collective::kBroadcast, 1e5, machine), 0);
  machine.nodes = 1;
  machine.inside.gbytes_per_s = 50;
  EXPECT_EQ(wireBound(Collective::kReduceScatter, 8e6, machine), 8e6 * 7 / 8 * 20);
  machine.ranks_per_node = 1;
  EXPECT_EQ(wireBound(Collective::kReduce, 8e6, machine), 0);
}

}  // namespace
}  // namespace horing
