#include "topology/job_map.h"

#include <algorithm>

#include "graphs.h"
#include "topology/cpu_mask.h"

namespace horing::test {
namespace {

// Two packages, a NIC of 25 GB/s at the first; NUMA node 0 has CPUs 0 and 1, node 1 CPUs 2 and 3.
MachineGraph twoPackages() {
  GraphBuilder builder;
  for (int32_t number : {0, 1}) {
    const int32_t package =
        builder.add({NodeKind::kPackage, 0, std::to_string(number), kAssumedPackageGBytesPerS});
    GraphNode numa{NodeKind::kNuma, package, std::to_string(number), kAssumedNumaGBytesPerS};
    numa.cpus = {2 * number, 2 * number + 1};
    numa.detail = "not sent";
    const int32_t home = builder.add(std::move(numa));
    if (number == 0) builder.add({NodeKind::kNic, home, "eth0", 32, 25});
  }
  return built(builder);
}

Fragment on(const MachineGraph& graph, const std::vector<int32_t>& cpus) {
  return fragmentOf(graph, homeOf(graph, cpus));
}

TEST(JobMap, LaysRanksOfOneNumaNodeOneAfterTheOther) {
  const MachineGraph graph = twoPackages();
  const std::vector<std::string> nodes(4, "a");
  const std::vector<Fragment> fragments = {on(graph, {0}), on(graph, {2}), on(graph, {1}), on(graph, {3})};
  const JobMap map = layJob(nodes, fragments);
  EXPECT_EQ(map.precedence, (std::vector<int32_t>{0, 2, 1, 3}));
  EXPECT_TRUE(map.warnings.empty());
  EXPECT_EQ(map.rails[1], "eth0 6.25 GB/s");
}

TEST(JobMap, LaysNodesInTheOrderOfTheirLowestRank) {
  const MachineGraph graph = twoPackages();
  const std::vector<std::string> nodes = {"b", "a", "b", "a"};
  const std::vector<Fragment> fragments = {on(graph, {2}), on(graph, {0}), on(graph, {0}), on(graph, {2})};
  EXPECT_EQ(layJob(nodes, fragments).precedence, (std::vector<int32_t>{1, 2, 0, 3}));
}

TEST(JobMap, LeavesRanksThatAreAnywhereInPlainOrder) {
  const std::vector<std::string> nodes = {"a", "b", "a", "b"};
  const JobMap map = layJob(nodes, std::vector<Fragment>(4));
  EXPECT_EQ(map.precedence, (std::vector<int32_t>{0, 2, 1, 3}));
  EXPECT_EQ(map.rails, std::vector<std::string>(4));
}

TEST(JobMap, FallsBackToPlainOrderWhereRanksContradictEachOther) {
  const MachineGraph graph = twoPackages();
  Fragment liar = on(graph, {0});
  for (GraphNode& node : liar.nodes)
    if (node.kind == NodeKind::kNuma) node.gbytes_per_s = 1;
  const std::vector<std::string> nodes = {"a", "a", "a", "b", "b"};
  const std::vector<Fragment> fragments = {on(graph, {2}), on(graph, {0}), liar, on(graph, {2}),
                                           on(graph, {0})};
  const JobMap map = layJob(nodes, fragments);
  EXPECT_EQ(map.precedence, (std::vector<int32_t>{0, 1, 2, 4, 3}));
  ASSERT_EQ(map.warnings.size(), 1u);
  EXPECT_NE(map.warnings[0].find("rank 2 sees numa 0"), std::string::npos) << map.warnings[0];
  // One NUMA node in two packages.
  Fragment moved = on(graph, {0});
  moved.nodes[1].name = "7";
  const std::vector<Fragment> two = {on(graph, {0}), moved};
  EXPECT_EQ(layJob(std::vector<std::string>(2, "a"), two).warnings.size(), 1u);
}

// Four GPUs below one switch, joined by a ring of direct links 0 2 1 3: each rank reports those of its own GPU.
MachineGraph linkedGpus() {
  GraphBuilder builder;
  std::vector<int32_t> gpus;
  const int32_t bridge = builder.add({NodeKind::kBridge, 0, "0000:01:00.0", 32});
  for (int32_t number = 0; number < 4; ++number) {
    const std::string bus = formatString("0000:%02x:00.0", 0x3b + number);
    gpus.push_back(builder.add({NodeKind::kGpu, bridge, bus, 32, 0, bus}));
  }
  for (const auto& [a, b] : {std::pair(0, 2), std::pair(2, 1), std::pair(1, 3), std::pair(3, 0)})
    builder.link(gpus[static_cast<size_t>(a)], gpus[static_cast<size_t>(b)], 50);
  return built(builder);
}

TEST(JobMap, LaysRanksOnGpusAlongTheLinksThatEachTellsOfItsOwn) {
  const MachineGraph graph = linkedGpus();
  const std::vector<int32_t> gpus = graph.ofKind(NodeKind::kGpu);
  std::vector<Fragment> fragments;
  for (const int32_t gpu : gpus) {
    fragments.push_back(fragmentOf(graph, gpu));
    EXPECT_EQ(fragments.back().links.size(), 2u);
    for (const GraphNode& node : fragments.back().nodes)
      EXPECT_TRUE(node.kind != NodeKind::kGpu || node.name == graph.node(gpu).name) << "of another rank";
  }
  const std::vector<std::string> nodes(4, "a");
  EXPECT_EQ(layJob(nodes, fragments).precedence, (std::vector<int32_t>{0, 2, 1, 3}));
  fragments[3].links[0].gbytes_per_s = 1;
  const JobMap map = layJob(nodes, fragments);
  EXPECT_EQ(map.precedence, (std::vector<int32_t>{0, 1, 2, 3}));
  ASSERT_EQ(map.warnings.size(), 1u);
  EXPECT_NE(map.warnings[0].find("rank 3 sees the link to gpu 0000:3b:00.0"), std::string::npos)
      << map.warnings[0];
}

// The links of GPUs to a fabric join those of any two ranks.
TEST(JobMap, KnowsFabrics) {
  const MachineGraph dgx2 = read(fileText(HORING_MACHINES "/nvidia-dgx2.xml"));
  const std::vector<int32_t> gpus = dgx2.ofKind(NodeKind::kGpu);
  const Fragment fragment = fragmentOf(dgx2, gpus[3]);
  ASSERT_EQ(fragment.links.size(), 1u);
  EXPECT_EQ(fragment.links[0].kind, NodeKind::kFabric);
  EXPECT_TRUE(std::any_of(fragment.nodes.begin(), fragment.nodes.end(),
                          [](const GraphNode& node) { return node.kind == NodeKind::kFabric; }));
}

TEST(JobMap, FindsHomesByTheirCpus) {
  const MachineGraph graph = twoPackages();
  EXPECT_EQ(graph.node(homeOf(graph, {2, 3})).name, "1");
  EXPECT_EQ(homeOf(graph, {1, 2}), 0);
  EXPECT_EQ(homeOf(graph, {9}), 0);
  EXPECT_EQ(homeOf(graph, {}), 0);
}

TEST(JobMap, SendsNoMoreThanItMust) {
  const Fragment fragment = on(twoPackages(), {2});
  EXPECT_EQ(fragment.nodes.size(), 6u);
  for (const GraphNode& node : fragment.nodes) EXPECT_TRUE(node.detail.empty() && node.cpus.empty());
  const MachineGraph p5 = read(fileText(HORING_MACHINES "/aws-p5.xml"));
  EXPECT_LE(fragmentOf(p5, p5.ofKind(NodeKind::kGpu)[3]).nodes.size(), kMaxFragmentNodes);
  EXPECT_EQ(fragmentOf(p5, 0).home, 0);
}

TEST(CpuMask, IsReadAndWrittenAsTheKernelDoes) {
  EXPECT_EQ(parseCpuMask("00000003,80000001").take(), (std::vector<int32_t>{0, 31, 32, 33}));
  EXPECT_EQ(parseCpuMask("0x0000000f").take(), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(parseCpuMask("0x00000001,,0x00000002").take(), (std::vector<int32_t>{1, 64}));
  EXPECT_EQ(formatCpuMask({0, 31, 32, 33}), "00000003,80000001");
  EXPECT_EQ(formatCpuMask({}), "00000000");
  for (const char* text : {"xyz", "-1", "1 2", "100000000,1"}) EXPECT_FALSE(parseCpuMask(text).ok()) << text;
  std::string endless = "1";
  for (int word = 0; word < kMaxCpus / 32; ++word) endless += ",00000000";
  EXPECT_FALSE(parseCpuMask(endless).ok());
  EXPECT_FALSE(cpusOfThisThread().empty());
}

}  // namespace
}  // namespace horing::test
