#include "topology/machine_graph.h"

#include <cmath>

#include "graphs.h"
#include "topology/hwloc_graph.h"
#include "topology/nccl_xml.h"

namespace horing::test {
namespace {

std::string refusalOf(std::vector<GraphNode> nodes, std::vector<GraphLink> links = {}) {
  const Result<MachineGraph> graph = MachineGraph::make(std::move(nodes), std::move(links));
  return graph.ok() ? "" : graph.status().message();
}

TEST(MachineGraph, RefusesWhatIsNoTree) {
  const GraphNode machine;
  const GraphNode gpu{NodeKind::kGpu, 0, "g"};
  EXPECT_EQ(refusalOf({machine, gpu}), "");
  EXPECT_NE(refusalOf({}), "");
  EXPECT_NE(refusalOf({gpu}).find("not a machine"), std::string::npos);
  EXPECT_NE(refusalOf({machine, {NodeKind::kGpu, 1, "g"}}).find("no place"), std::string::npos);
  EXPECT_NE(refusalOf({machine, {NodeKind::kGpu, -1, "g"}}).find("no place"), std::string::npos);
  EXPECT_NE(refusalOf({machine, gpu, {NodeKind::kNic, 1, "n"}}).find("holds nothing"), std::string::npos);
  EXPECT_NE(refusalOf({machine, gpu, gpu}).find("twice"), std::string::npos);
  EXPECT_NE(refusalOf({machine, {NodeKind::kMachine, 0, "m"}}).find("second machine"), std::string::npos);
}

TEST(MachineGraph, RefusesBandwidthsAndNamesThatCannotBe) {
  const GraphNode machine;
  for (const double width : {-1.0, double{NAN}, double{INFINITY}, 2 * kMaxGBytesPerS}) {
    EXPECT_NE(refusalOf({machine, {NodeKind::kGpu, 0, "g", width}}).find("bandwidth"), std::string::npos);
    EXPECT_NE(refusalOf({machine, {NodeKind::kNic, 0, "n", 0, width}}).find("bandwidth"), std::string::npos);
    EXPECT_NE(refusalOf({machine, {NodeKind::kGpu, 0, "a"}, {NodeKind::kGpu, 0, "b"}}, {{1, 2, width}}), "");
  }
  EXPECT_NE(refusalOf({machine, {NodeKind::kGpu, 0, "\x1b[2J"}}).find("name"), std::string::npos);
  EXPECT_NE(refusalOf({machine, {NodeKind::kGpu, 0, std::string(64, 'x')}}).find("name"), std::string::npos);
}

TEST(MachineGraph, RefusesLinksToNowhereAndTooManyOfAnything) {
  const GraphNode machine;
  const std::vector<GraphNode> two = {machine, {NodeKind::kGpu, 0, "a"}, {NodeKind::kGpu, 0, "b"}};
  EXPECT_EQ(refusalOf(two, {{1, 2, 25}}), "");
  for (const GraphLink& link : {GraphLink{1, 1, 1}, {2, 1, 1}, {1, 3, 1}, {-1, 1, 1}})
    EXPECT_NE(refusalOf(two, {link}), "") << link.a << " " << link.b;
  EXPECT_NE(refusalOf(two, {{1, 2, 25}, {1, 2, 50}}).find("twice"), std::string::npos);
  std::vector<GraphNode> many = {machine};
  while (many.size() < kMaxGraphNodes) many.push_back({NodeKind::kGpu, 0, std::to_string(many.size())});
  EXPECT_EQ(refusalOf(many), "");
  many.push_back({NodeKind::kGpu, 0, "one more"});
  EXPECT_NE(refusalOf(many), "");
}

TEST(MachineGraph, FindsTheWayBetweenNodes) {
  GraphBuilder builder;
  const int32_t package = builder.add({NodeKind::kPackage, 0, "0", kAssumedPackageGBytesPerS});
  std::vector<int32_t> gpus;
  for (const char* numa_name : {"0", "1"}) {
    const int32_t numa = builder.add({NodeKind::kNuma, package, numa_name, kAssumedNumaGBytesPerS});
    const int32_t bridge = builder.add({NodeKind::kBridge, numa, std::string("s") + numa_name, 15});
    for (const char* gpu : {"a", "b"})
      gpus.push_back(builder.add({NodeKind::kGpu, bridge, gpu + std::string(numa_name), 16}));
    gpus.push_back(builder.add({NodeKind::kGpu, numa, "c" + std::string(numa_name), 8}));
  }
  builder.link(gpus[0], gpus[3], 50);
  const MachineGraph graph = built(builder);
  const auto way = [&](const char* from, const char* to) {
    return graph.path(*graph.find(NodeKind::kGpu, from), *graph.find(NodeKind::kGpu, to));
  };
  EXPECT_EQ(way("a0", "a0").kind, PathKind::kSame);
  EXPECT_EQ(way("a0", "b0").kind, PathKind::kBridge);
  EXPECT_EQ(way("a0", "b0").gbytes_per_s, 16);
  EXPECT_EQ(way("a0", "c0").kind, PathKind::kNuma);
  EXPECT_EQ(way("a0", "c0").gbytes_per_s, 8);
  EXPECT_EQ(way("b0", "b1").kind, PathKind::kPackage);
  EXPECT_EQ(way("b0", "b1").gbytes_per_s, 15);
  EXPECT_EQ(way("b0", "b1").hops, 6);
  EXPECT_EQ(way("a0", "a1").kind, PathKind::kDirect);
  EXPECT_EQ(way("a1", "a0").gbytes_per_s, 50);
}

TEST(MachineGraph, ReachesThroughAFabricWhatBothItsEndsCan) {
  GraphBuilder builder = scattered(3);
  const int32_t fabric = builder.add({NodeKind::kFabric, 0, "nvswitch"});
  builder.link(2, fabric, 450);
  builder.link(4, fabric, 300);
  const MachineGraph graph = built(builder);
  EXPECT_EQ(graph.path(2, 4).kind, PathKind::kDirect);
  EXPECT_EQ(graph.path(2, 4).gbytes_per_s, 300);
  EXPECT_EQ(graph.path(2, 6).kind, PathKind::kMachine);
}

TEST(GraphBuilder, LeavesOutBridgesThatJoinNothing) {
  GraphBuilder builder;
  const int32_t upper = builder.add({NodeKind::kBridge, 0, "upper", 4});
  const int32_t lower = builder.add({NodeKind::kBridge, upper, "lower", 16});
  builder.add({NodeKind::kGpu, lower, "gpu", 8});
  builder.add({NodeKind::kBridge, 0, "empty", 8});
  const MachineGraph graph = built(builder);
  ASSERT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.node(1).name, "gpu");
  EXPECT_EQ(graph.node(1).parent, 0);
  EXPECT_EQ(graph.node(1).gbytes_per_s, 4);
}

TEST(Pcie, HasTheSpeedsOfItsGenerations) {
  EXPECT_DOUBLE_EQ(pcieGBytesPerS(2.5, 1), 0.25);
  EXPECT_NEAR(pcieGBytesPerS(8, 16), 15.75, 0.01);
  EXPECT_NEAR(pcieGBytesPerS(32, 16), 63.0, 0.05);
}

TEST(MachineGraph, OfThisMachineHasAHomeForARank) {
  const Result<MachineGraph> graph = graphOfThisMachine();
  ASSERT_TRUE(graph.ok()) << graph.status().toString();
  EXPECT_FALSE(graph.value().ofKind(NodeKind::kNuma).empty());
}

TEST(MachineGraph, IsReadFromASyntheticDescription) {
  const MachineGraph graph = read("pack:2 numa:2 core:4 pu:2");
  EXPECT_EQ(graph.ofKind(NodeKind::kPackage).size(), 2u);
  const std::vector<int32_t> numa = graph.ofKind(NodeKind::kNuma);
  ASSERT_EQ(numa.size(), 4u);
  EXPECT_EQ(graph.path(numa[0], numa[1]).kind, PathKind::kPackage);
  EXPECT_EQ(graph.path(numa[1], numa[2]).kind, PathKind::kMachine);
}

TEST(MachineGraph, IsTheSameAfterADumpIsReadAgain) {
  for (const char* name : {"nvidia-dgx2", "hp-sl390s", "ibm-power8", "aws-p5", "azure-ndv4", "amd-mi250",
                           "ibm-h100", "aws-g5"}) {
    const MachineGraph graph = read(fileText(std::string(HORING_MACHINES "/") + name + ".xml"));
    const MachineGraph again = read(toNcclXml(graph));
    ASSERT_EQ(graph.nodes().size(), again.nodes().size()) << name;
    for (const GraphNode& node : graph.nodes()) {
      if (node.kind == NodeKind::kMachine) continue;
      const auto found = again.find(node.kind, node.name);
      ASSERT_TRUE(found) << name << " " << node.name;
      const GraphNode& other = again.node(*found);
      EXPECT_EQ(other.gbytes_per_s, node.gbytes_per_s) << name << " " << node.name;
      EXPECT_EQ(other.port_gbytes_per_s, node.port_gbytes_per_s) << name << " " << node.name;
      EXPECT_EQ(other.bus, node.bus);
      EXPECT_EQ(again.node(other.parent).name, graph.node(node.parent).name) << name << " " << node.name;
    }
    ASSERT_EQ(graph.links().size(), again.links().size()) << name;
    EXPECT_EQ(toNcclXml(again), toNcclXml(graph)) << name;
  }
}

}  // namespace
}  // namespace horing::test
