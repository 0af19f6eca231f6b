#include "topology/ring_search.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "graphs.h"

namespace horing::test {
namespace {

std::vector<int32_t> sorted(std::vector<int32_t> order) {
  std::sort(order.begin(), order.end());
  return order;
}

// Of the best ring there is, by trying all.
double widestRing(const MachineGraph& graph, const std::vector<int32_t>& members) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  double best = 0;
  do {
    double narrowest = 1e9;
    for (size_t i = 0; i < order.size(); ++i)
      narrowest = std::min(
          narrowest, graph.path(members[order[i]], members[order[(i + 1) % order.size()]]).gbytes_per_s);
    best = std::max(best, narrowest);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

TEST(RingSearch, FindsTheWidestRingOfRandomMeshes) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int gpus = 4 + round % 5;
    GraphBuilder builder = scattered(gpus);
    for (int a = 0; a < gpus; ++a)
      for (int b = 0; b < a; ++b)
        if (random() % 5 < 3)
          builder.link(2 + 2 * b, 2 + 2 * a, 25.0 * static_cast<double>(1 + random() % 4));
    const MachineGraph graph = built(builder);
    const std::vector<int32_t> members = graph.ofKind(NodeKind::kGpu);
    const Ring ring = searchRing(graph, members);
    EXPECT_EQ(ring.gbytes_per_s, widestRing(graph, members)) << round;
    EXPECT_EQ(ring.order[0], 0);
    EXPECT_EQ(searchRing(graph, members), ring);
  }
}

TEST(RingSearch, CrossesEveryPartOfATreeOnce) {
  const MachineGraph graph = read("pack:2 numa:2 core:2 pu:1");
  const std::vector<int32_t> numa = graph.ofKind(NodeKind::kNuma);
  // Ranks bound in turns to NUMA nodes: 0 2 1 3 0 2 1 3.
  const std::vector<int32_t> members = {numa[0], numa[2], numa[1], numa[3],
                                        numa[0], numa[2], numa[1], numa[3]};
  EXPECT_EQ(searchRing(graph, members).order, (std::vector<int32_t>{0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST(RingSearch, LeavesTheOrderWhereNothingTellsMembersApart) {
  const MachineGraph graph = read("numa:1 core:8 pu:1");
  const std::vector<int32_t> members(100, graph.ofKind(NodeKind::kNuma)[0]);
  for (const size_t size : {1, 2, 3, 16, 64, 100}) {
    std::vector<int32_t> plain(size);
    std::iota(plain.begin(), plain.end(), 0);
    EXPECT_EQ(searchRing(graph, std::span(members).first(size)).order, plain) << size;
  }
  EXPECT_TRUE(searchRing(graph, {}).order.empty());
}

// The limit is a number of steps, so that all ranks find the same ring; it is meant to be a second. How long a ring takes:
std::chrono::duration<double> timeOf(const MachineGraph& graph, Ring& ring) {
  const std::vector<int32_t> gpus = graph.ofKind(NodeKind::kGpu);
  const auto begin = std::chrono::steady_clock::now();
  ring = searchRing(graph, gpus);
  return std::chrono::steady_clock::now() - begin;
}

constexpr std::chrono::duration<double> kGenerously = std::chrono::seconds(10);

// Two hybrid cube meshes joined GPU by GPU; its ring is in machines/made-16-gpus-16-nics.txt.
TEST(RingSearch, TakesFewStepsForSixteenGpusAndSixteenNics) {
  const MachineGraph graph = read(fileText(HORING_MACHINES "/made-16-gpus-16-nics.xml"));
  ASSERT_EQ(graph.ofKind(NodeKind::kNic).size(), 16u);
  Ring ring;
  EXPECT_LT(timeOf(graph, ring), kGenerously);
  EXPECT_EQ(ring.order.size(), 16u);
  EXPECT_EQ(ring.worst, PathKind::kDirect);
  EXPECT_GT(ring.steps, 0);
  EXPECT_LT(ring.steps, kMaxRingSteps / 10);
}

// Sixteen GPUs whose links allow many partial rings and no whole one: the worst for backtracking.
TEST(RingSearch, EndsWhereThereIsNoRingToFind) {
  GraphBuilder builder = scattered(16);
  for (int a = 0; a < 16; ++a)
    for (int b = 0; b < a; ++b)
      if (a < 8 && b < 8) builder.link(2 + 2 * b, 2 + 2 * a, 25 + a * 16 + b);
  const MachineGraph graph = built(builder);
  Ring ring;
  EXPECT_LT(timeOf(graph, ring), kGenerously);
  EXPECT_GT(ring.steps, kMaxBacktrackingSteps) << "else this is no hard case";
  EXPECT_LE(ring.steps, kMaxRingSteps);
  std::vector<int32_t> all(16);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted(ring.order), all);
  EXPECT_EQ(ring.worst, PathKind::kMachine);
}

}  // namespace
}  // namespace horing::test
