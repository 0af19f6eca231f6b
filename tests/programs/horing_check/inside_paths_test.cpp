// What moves between the parts of a node: the comparison, NUMA nodes from topology files and of this machine, and GPUs of an emulated driver.
#include "horing_check/inside_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cuda/fake_cuda/fake_cuda.h"
#include "horing_check/gpu_paths.h"
#include "horing_check/numa_paths.h"
#include "horing_check/report.h"
#include "topology/cpu_mask.h"
#include "topology/hwloc_graph.h"
#include "topology/topology_file.h"

namespace horing::check {
namespace {

const std::string kLink = "GPU to GPU, direct link of 50 GB/s", kBus = "GPU to GPU, across the machine";

// Nodes of eight GPUs, of which neighbours are joined by links; each figure is off by `spread`.
std::vector<InsidePaths> nodesOfGpus(size_t nodes, unsigned seed, double spread = 0.03) {
  std::mt19937 random(seed);
  std::normal_distribution<> off(0, spread);
  std::vector<InsidePaths> all(nodes);
  for (InsidePaths& node : all)
    for (int from = 0; from < 8; ++from)
      for (int to = 0; to < 8; ++to)
        if (const bool is_link = from / 2 == to / 2; from != to)
          node.all.push_back({is_link ? kLink : kBus, "GPU " + std::to_string(from),
                              "GPU " + std::to_string(to), (is_link ? 4e10 : 1e10) * std::exp(off(random))});
  return all;
}

void slowDown(InsidePaths& node, const std::string& from, const std::string& to, double factor) {
  for (InsidePath& path : node.all)
    if ((from.empty() || path.from == from) && path.to == to) path.bytes_per_s *= factor;
}

std::string blamedPaths(const std::vector<InsidePaths>& nodes, std::vector<std::string> processors = {}) {
  processors.resize(nodes.size(), "x");
  std::string text;
  for (const Finding& finding : comparePaths(nodes, processors, true)) {
    EXPECT_TRUE(finding.part == Part::kInside && finding.confirmed);
    text += std::to_string(finding.node) + ": " + finding.what.substr(0, finding.what.find(" (")) + "; ";
  }
  return text;
}

TEST(InsidePaths, AreNotBlamedForNoise) {
  for (const size_t nodes : {1u, 2u, 8u, 32u})
    for (unsigned seed = 1; seed <= 50; ++seed)
      EXPECT_EQ(blamedPaths(nodesOfGpus(nodes, seed)), "") << nodes << " nodes, seed " << seed;
}

TEST(InsidePaths, AreNamedIfTheyAreSlowForTheirKind) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::vector<InsidePaths> nodes = nodesOfGpus(4, seed);
    slowDown(nodes[2], "GPU 4", "GPU 5", 0.6);
    EXPECT_EQ(blamedPaths(nodes), "2: GPU 4 to GPU 5; ") << seed;
    std::vector<InsidePaths> alone = nodesOfGpus(1, seed);
    slowDown(alone[0], "GPU 0", "GPU 7", 0.5);
    EXPECT_EQ(blamedPaths(alone), "0: GPU 0 to GPU 7; ") << "of one node, seed " << seed;
  }
}

// What a GPU receives is slow: its slot or its lanes, in place of seven paths.
TEST(InsidePaths, NameThePartThatTheyHaveInCommon) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::vector<InsidePaths> nodes = nodesOfGpus(2, seed);
    for (InsidePath& path : nodes[1].all)
      if (path.kind == kBus && (path.from == "GPU 3" || path.to == "GPU 3")) path.bytes_per_s *= 0.5;
    EXPECT_EQ(blamedPaths(nodes), "1: GPU 3; ") << seed;
    const std::vector<Finding> findings = comparePaths(nodes, {"x", "x"}, false);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].partners, 12);
    EXPECT_FALSE(findings[0].confirmed);
  }
}

TEST(InsidePaths, OfOtherProcessorsAreNotCompared) {
  std::vector<InsidePaths> nodes = nodesOfGpus(4, 1);
  for (size_t node : {0u, 1u})
    for (InsidePath& path : nodes[node].all) path.bytes_per_s /= 2;
  EXPECT_EQ(blamedPaths(nodes, {"old", "old", "new", "new"}), "");
  EXPECT_EQ(blamedPaths({{}, {}}), "");
  EXPECT_EQ(blamedPaths({{{{"memory", "NUMA node 0", "NUMA node 1", 1e9}}, ""},
                         {{{"memory", "NUMA node 0", "NUMA node 1", 1e8}}, ""}}),
            "")
      << "of two figures it is not known which is usual";
}

TEST(InsidePaths, TravelAsText) {
  const InsidePaths paths = {{{kLink, "GPU 0", "GPU 1", 1.25e10, true}, {"memory", "a", "b", 3e9}},
                             "no\ttime"};
  const InsidePaths again = pathsFromText(pathsToText(paths));
  ASSERT_EQ(again.all.size(), 2u);
  EXPECT_EQ(again.all[0].kind, kLink);
  EXPECT_EQ(again.all[0].to, "GPU 1");
  EXPECT_DOUBLE_EQ(again.all[0].bytes_per_s, 1.25e10);
  EXPECT_TRUE(again.all[0].is_wrong && !again.all[1].is_wrong);
  EXPECT_NE(again.left_out, "");
  EXPECT_EQ(pathsFromText("").all.size(), 0u);
  EXPECT_EQ(pathsFromText("\na\tb\tc\nx").all.size(), 0u);
  InsidePaths best = paths;
  keepBest(best, {{{kLink, "GPU 0", "GPU 1", 2e10}, {"memory", "a", "b", 1e9}, {"memory", "b", "a", 1}}, ""});
  ASSERT_EQ(best.all.size(), 3u);
  EXPECT_EQ(best.all[0].bytes_per_s, 2e10);
  EXPECT_TRUE(best.all[0].is_wrong) << "once is enough";
  EXPECT_EQ(best.all[1].bytes_per_s, 3e9);
  EXPECT_EQ(best.left_out, "");
  keepBest(best, {{}, "too little time"});
  EXPECT_EQ(best.left_out, "") << "all were measured before";
  InsidePaths none;
  keepBest(none, {{{kLink, "GPU 0", "GPU 1", 2e10}}, "too little time"});
  EXPECT_EQ(none.left_out, "too little time");
}

TEST(InsidePaths, AreInTextAndJson) {
  Report report;
  report.names = {"n0", "n1", "n2", "n3"};
  report.inside_paths = nodesOfGpus(4, 1);
  report.inside_paths[3].left_out = "starting CUDA: it broke";
  slowDown(report.inside_paths[2], "GPU 4", "GPU 5", 0.5);
  slowDown(report.inside_paths[2], "GPU 6", "GPU 7", 0.5);
  report.inside_paths[1].all[0].is_wrong = true;
  addFindings(report.verdict, comparePaths(report.inside_paths, std::vector<std::string>(4, "x"), true));
  const std::string text = verdictText(report);
  for (const char* const part :
       {"\n  GPU to GPU, across the machine: 9.", " GB/s (median of 192)\n",
        "\n  not measured to the end on n3: starting CUDA: it broke\n",
        "\n  n1: other bytes arrive than were sent from GPU 0 to GPU 1: look at ",
        "\n  n2: GPU 4 to GPU 5 (GPU to GPU, direct link of 50 GB/s) at ", "\n  n2: GPU 6 to GPU 7 ("})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  EXPECT_EQ(outcomeOf(report), Outcome::kSlow);
  const auto json = nlohmann::json::parse(reportToJson(report));
  EXPECT_EQ(json["inside_paths"].size(), 4u * 56u);
  EXPECT_EQ(json["inside_paths"][0]["kind"], kLink);
  EXPECT_EQ(json["findings"][1]["quantity"], "inside_path");
  EXPECT_EQ(json["findings"][1]["node"], "n2");
}

TEST(NumaPaths, JoinTheNodesOfATopologyFile) {
  const Result<MachineGraph> graph =
      graphFromFile(HORING_MACHINES "/azure-ndv4.xml");  // four NUMA nodes of 24 processors
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  std::vector<int32_t> usable = {0, 5, 23, 24, 95};
  const std::vector<NumaPlace> places = numaPlaces(graph.value(), usable);
  ASSERT_EQ(places.size(), 3u) << "one has no processor that may be used";
  EXPECT_EQ(places[0].name, "0");
  EXPECT_EQ(places[0].cpus, (std::vector<int32_t>{0, 5, 23}));
  EXPECT_EQ(places[2].name, "3");
  EXPECT_EQ(numaPlaces(graph.value(), {}).size(), 0u);
}

constexpr auto kNever = std::chrono::steady_clock::time_point::max();

// This machine's own, and its processors as if they were of several NUMA nodes.
TEST(NumaPaths, AreMeasuredOnThisMachine) {
  const std::vector<int32_t> usual = cpusOfThisThread();
  const Result<MachineGraph> graph = graphOfThisMachine();
  ASSERT_TRUE(graph.ok());
  const size_t own = numaPlaces(graph.value(), usual).size();
  EXPECT_GE(own, 1u);
  EXPECT_EQ(numaPaths(graph.value(), kNever).all.size(), own * (own - 1));
  const std::vector<InsidePath> paths =
      pathsBetween({{"0", 1, usual}, {"1", 1, {usual.back()}}, {"2", 7, {usual.front()}}}, kNever).all;
  ASSERT_EQ(paths.size(), 6u);
  for (const InsidePath& path : paths) EXPECT_GT(path.bytes_per_s, 1e8) << path.from << " to " << path.to;
  EXPECT_EQ(paths[0].kind, "memory between NUMA nodes, one package");
  EXPECT_EQ(paths[1].kind, "memory between NUMA nodes, across packages");
  EXPECT_EQ(cpusOfThisThread(), usual) << "the thread was not moved back";
  EXPECT_EQ(pathsBetween({{"0", 0, {kMaxCpus - 1}}, {"1", 0, usual}}, kNever).all.size(), 0u)
      << "no such processor";
  const InsidePaths late = pathsBetween({{"0", 0, usual}, {"1", 0, usual}}, {});
  EXPECT_TRUE(late.all.empty());
  EXPECT_NE(late.left_out, "");
}

class GpuPaths : public ::testing::Test {
 protected:
  GpuPaths() : graph_(graphFromSynthetic("pack:1 core:1 pu:1")) {}

  Status measure(std::chrono::seconds within = std::chrono::seconds(60)) {
    return addGpuPaths(graph_.value(), std::chrono::steady_clock::now() + within, paths_);
  }

  const test::FakeCuda cuda_;
  const Result<MachineGraph> graph_;
  std::vector<InsidePath> paths_;
};

TEST_F(GpuPaths, OfAnEmulatedDriverAreAllMeasured) {
  const int live = cuda_.live();
  const Status status = measure();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(paths_.size(), 4u * 2u + 4u * 3u);
  for (const InsidePath& path : paths_) {
    EXPECT_GT(path.bytes_per_s, 1e6) << path.from << " to " << path.to;
    EXPECT_FALSE(path.is_wrong) << path.from << " to " << path.to;
  }
  EXPECT_EQ(paths_[0].kind, "GPU to host");
  EXPECT_EQ(paths_.back().kind, "GPU to GPU");
  EXPECT_EQ(paths_.back().from + " to " + paths_.back().to, "GPU 3 to GPU 2");
  EXPECT_EQ(cuda_.live(), live) << "memory or streams were left behind";
}

constexpr int32_t kNotUsable = 4000;  // a processor
// Of the calls that pinned memory, the processors of their threads.
std::vector<std::vector<int32_t>> pinned_on;

// Two NUMA nodes. GPUs 0 and 1, of 16 and of 8 lanes, are behind a switch with an adapter each; GPU 2 is on the second node, without a switch
// before it, like two adapters of that node. One of the second node's processors may not be used.
Result<MachineGraph> graphOfAdapters(const std::vector<int32_t>& first, std::vector<int32_t> second) {
  const auto device = [](const char* bus, const char* kind, int lanes, const std::string& inside) {
    return formatString(
               R"(<pci busid="0000:%s:00.0" class="%s" link_speed="16.0 GT/s PCIe" link_width="%d">)", bus,
               kind, lanes) +
           inside + "</pci>";
  };
  const auto node = [](int number, const std::vector<int32_t>& cpus, const std::string& inside) {
    return formatString(R"(<cpu numaid="%d" affinity="%s" arch="x86_64" vendor="GenuineIntel">)", number,
                        formatCpuMask(cpus).c_str()) +
           inside + "</cpu>";
  };
  constexpr const char *kBridge = "0x060400", *kGpu = "0x030200", *kNic = "0x020700";
  second.push_back(kNotUsable);
  return graphFromText(
      R"(<system version="1">)" +
      node(0, first,
           device("10", kBridge, 16, device("3b", kGpu, 16, "") + device("20", kNic, 16, "")) +
               device("11", kBridge, 16, device("3c", kGpu, 8, "") + device("21", kNic, 16, ""))) +
      node(1, second, device("3d", kGpu, 16, "") + device("22", kNic, 16, "") + device("23", kNic, 16, "")) +
      "</system>");
}

TEST_F(GpuPaths, AreMeasuredToMemoryBesideEachAdapter) {
  if (test::FakeCuda::isReal()) GTEST_SKIP() << "real GPUs are where they are";
  const std::vector<int32_t> usual = cpusOfThisThread();
  // Different ones if there are two.
  const std::vector<int32_t> first = {usual.front()}, second = {usual.back()};
  const Result<MachineGraph> graph = graphOfAdapters(first, second);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  pinned_on.clear();
  cuda_.watchPins([] { pinned_on.push_back(cpusOfThisThread()); });
  const int live = cuda_.live();
  const Status status = addGpuPaths(graph.value(), kNever, paths_);
  cuda_.watchPins(nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(cpusOfThisThread(), usual) << "the thread was not moved back";
  EXPECT_EQ(cuda_.live(), live) << "pinned memory was kept";
  // Each of four GPUs for its own, then each for the host and beside its adapters, if it is in the graph.
  const std::vector<std::vector<int32_t>> own(4, usual);
  std::vector<std::vector<int32_t>> expected = own;
  expected.insert(expected.end(), {usual, first, usual, first, usual, second, usual});
  EXPECT_EQ(pinned_on, expected);
  std::string names;
  for (const InsidePath& path : paths_) {
    EXPECT_GT(path.bytes_per_s, 1e6) << path.from;
    if (path.from.find("GPU") == 0 && path.to.find("GPU") != 0)
      names += path.kind + ": " + path.from + " to " + path.to + "\n";
  }
  EXPECT_EQ(names, R"(GPU to host of 31.5 GB/s: GPU 0 to host
GPU to memory beside its adapter, one PCIe switch of 31.5 GB/s: GPU 0 to memory beside 0000:20:00.0
GPU to host of 15.8 GB/s: GPU 1 to host
GPU to memory beside its adapter, one PCIe switch of 15.8 GB/s: GPU 1 to memory beside 0000:21:00.0
GPU to host of 31.5 GB/s: GPU 2 to host
GPU to memory beside its adapter, one NUMA node of 31.5 GB/s: GPU 2 to memory beside 0000:22:00.0
GPU to host: GPU 3 to host
)");
}

// Not on all of a NUMA node, and not beside GPU 2.
TEST_F(GpuPaths, AreMeasuredOnTheProcessorsThatMayBeUsed) {
  if (test::FakeCuda::isReal()) GTEST_SKIP() << "real GPUs are where they are";
  const std::vector<int32_t> all = cpusOfThisThread(), mine = {all.front()};
  const Result<MachineGraph> graph = graphOfAdapters(all, {});
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_TRUE(moveTo(mine));
  pinned_on.clear();
  cuda_.watchPins([] { pinned_on.push_back(cpusOfThisThread()); });
  const Status status = addGpuPaths(graph.value(), kNever, paths_);
  cuda_.watchPins(nullptr);
  const std::vector<int32_t> after = cpusOfThisThread();
  ASSERT_TRUE(moveTo(all));
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(after, mine);
  EXPECT_EQ(pinned_on, std::vector<std::vector<int32_t>>(4 + 4 + 2, mine));
  for (const InsidePath& path : paths_)
    EXPECT_EQ((path.from + path.to).find("0000:22"), std::string::npos) << path.from << " to " << path.to;
}

TEST_F(GpuPaths, AreComparedByteByByte) {
  cuda_.fail("a write to another GPU", 1, 0, 3);  // all turns of the first pair
  const Status status = measure();
  cuda_.fail(nullptr, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(std::ranges::count(paths_, true, &InsidePath::is_wrong), 1);
  EXPECT_TRUE(paths_[8].is_wrong) << "of the first pair";
}

TEST_F(GpuPaths, SayWhatTheDriverRefuses) {
  cuda_.fail("cuMemAlloc", 2);
  const Status status = measure();
  cuda_.fail(nullptr, 0);
  EXPECT_NE(status.message().find("allocating memory of a GPU"), std::string::npos) << status.message();
  EXPECT_EQ(paths_.size(), 0u);
  EXPECT_NE(measure(std::chrono::seconds(0)).message().find("too little time"), std::string::npos);
}

}  // namespace
}  // namespace horing::check
