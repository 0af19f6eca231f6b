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

// Between the NUMA nodes links are the widest way, so that the ring has their width; inside, the host is wider than the links beside it
// (as a virtual machine of MI200 claims). Links make the whole ring, in which no hop goes through the host.
TEST(RingSearch, TakesLinksThatAreAsWideAsTheRing) {
  GraphBuilder builder;
  std::vector<int32_t> gpus;
  for (const char* name : {"0", "1"}) {
    const int32_t numa = builder.add({NodeKind::kNuma, 0, name, kAssumedPackageGBytesPerS});
    for (int gpu = 0; gpu < 3; ++gpu)
      gpus.push_back(builder.add({NodeKind::kGpu, numa, formatString("g%s%d", name, gpu), 63}));
  }
  for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}, {2, 4}})
    builder.link(gpus[static_cast<size_t>(a)], gpus[static_cast<size_t>(b)], 50);
  const MachineGraph graph = built(builder);
  const Ring ring = searchRing(graph, graph.ofKind(NodeKind::kGpu));
  EXPECT_EQ(ring.gbytes_per_s, 50);
  EXPECT_EQ(ring.host_hops, 0);
  EXPECT_EQ(ring.worst, PathKind::kDirect);
  EXPECT_EQ(ring.order, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
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

// Links of one width between the halves of 24 GPUs, 10 and 14 of them: every ring would have to change sides at each hop, and none can.
TEST(RingSearch, EndsWhereThereIsNoRingToFind) {
  GraphBuilder builder = scattered(24);
  for (int a = 0; a < 10; ++a)
    for (int b = 10; b < 24; ++b) builder.link(2 + 2 * a, 2 + 2 * b, 25);
  const MachineGraph graph = built(builder);
  Ring ring;
  EXPECT_LT(timeOf(graph, ring), kGenerously);
  EXPECT_GT(ring.steps, kMaxCycleSteps) << "else this is no hard case";
  EXPECT_LE(ring.steps, kMaxRingSteps);
  std::vector<int32_t> all(24);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted(ring.order), all);
  EXPECT_EQ(ring.worst, PathKind::kMachine);
  EXPECT_EQ(ring.host_hops, 4)
      << "what stays with 20 hops between sides: as many as the larger side has more";
}

// `gpus` in one NUMA node each, with a ring of links through all of them in a hidden order, and `chords` more for each GPU.
MachineGraph planted(int gpus, double chords, double gbytes_per_s, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> order(static_cast<size_t>(gpus));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  GraphBuilder builder = scattered(gpus);
  const auto link = [&](int a, int b) { builder.link(2 + 2 * a, 2 + 2 * b, gbytes_per_s); };
  for (size_t i = 0; i < order.size(); ++i) link(order[i], order[(i + 1) % order.size()]);
  for (int chord = 0; chord < static_cast<int>(chords * gpus); ++chord) {
    const int a = static_cast<int>(random() % order.size()), b = static_cast<int>(random() % order.size());
    if (a != b) link(a, b);
  }
  return built(builder);
}

TEST(RingSearch, FindsEveryRingThatIsPlanted) {
  for (const int gpus : {8, 16, 20, 32, 48, 64, 72})
    for (const double chords : {0.0, 0.25, 0.5, 1.0, 2.0, 4.0})
      for (const uint32_t seed : {1u, 2u, 3u}) {
        Ring ring;
        EXPECT_LT(timeOf(planted(gpus, chords, 50, seed), ring), kGenerously);
        EXPECT_EQ(ring.worst, PathKind::kDirect) << gpus << " GPUs, " << chords << " chords, seed " << seed;
        EXPECT_EQ(ring.gbytes_per_s, 50);
      }
}

// The narrowest hop is the same either way.
TEST(RingSearch, PrefersLinksToWaysThroughTheHostThatAreAsWide) {
  for (const int gpus : {8, 16, 48})
    for (const uint32_t seed : {1u, 2u, 3u}) {
      Ring ring;
      EXPECT_LT(timeOf(planted(gpus, 1, kAssumedPackageGBytesPerS, seed), ring), kGenerously);
      EXPECT_EQ(ring.host_hops, 0) << gpus << " GPUs, seed " << seed;
    }
}

// Eight GPUs with links of 50 GB/s in the shape that is asked for; the host joins all at 16.
Ring ringOf(const std::vector<std::pair<int, int>>& links) {
  GraphBuilder builder = scattered(8);
  for (const auto& [a, b] : links) builder.link(2 + 2 * a, 2 + 2 * b, 50);
  const MachineGraph graph = built(builder);
  return searchRing(graph, graph.ofKind(NodeKind::kGpu));
}

TEST(RingSearch, SaysWhyThereIsNoWiderRing) {
  using Outcome = CycleSearch::Outcome;
  // Two squares.
  const Ring apart = ringOf({{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 5}, {5, 6}, {6, 7}, {7, 4}});
  EXPECT_EQ(apart.why_no_wider, Outcome::kApart);
  EXPECT_EQ(apart.wider_gbytes_per_s, 50);
  EXPECT_EQ(apart.gbytes_per_s, kAssumedPackageGBytesPerS);
  EXPECT_EQ(apart.host_hops, 2);
  // They share a corner, 3; then one has a single link.
  const Ring cut = ringOf({{0, 1}, {1, 2}, {2, 3}, {3, 0}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 3}});
  EXPECT_EQ(cut.why_no_wider, Outcome::kCutVertex);
  EXPECT_EQ(cut.stuck, 3);
  const Ring leaf = ringOf({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 0}, {6, 7}});
  EXPECT_EQ(leaf.why_no_wider, Outcome::kFewEdges);
  EXPECT_EQ(leaf.stuck, 7);
  // Three ways between 0 and 1, and a ring would need all.
  const Ring none = ringOf({{0, 2}, {2, 3}, {3, 1}, {0, 4}, {4, 5}, {5, 1}, {0, 6}, {6, 7}, {7, 1}});
  EXPECT_EQ(none.why_no_wider, Outcome::kNone);
  // Nothing is wider than a ring of links.
  const Ring ring = ringOf({{0, 2}, {2, 4}, {4, 6}, {6, 1}, {1, 3}, {3, 5}, {5, 7}, {7, 0}});
  EXPECT_EQ(ring.wider_gbytes_per_s, 0);
  EXPECT_EQ(ring.tree_host_hops, 7) << "all but the one from 7 to 0";
  EXPECT_EQ(ring.tree_gbytes_per_s, kAssumedPackageGBytesPerS);
}

// Links of twelve widths between the halves of 48 GPUs, 20 and 28 of them, through which no ring goes, and a narrower ring through all.
TEST(RingSearch, HasStepsLeftForNarrowerRings) {
  GraphBuilder builder = scattered(48);
  for (int a = 0; a < 20; ++a)
    for (int b = 20; b < 48; ++b) builder.link(2 + 2 * a, 2 + 2 * b, 60 + (a + b) % 12);
  for (int gpu = 0; gpu < 48; ++gpu) {
    const int next = (gpu + 1) % 48, from = std::min(gpu, next), to = std::max(gpu, next);
    if (from >= 20 || to < 20) builder.link(2 + 2 * from, 2 + 2 * to, 50);
  }
  const MachineGraph graph = built(builder);
  Ring ring;
  EXPECT_LT(timeOf(graph, ring), kGenerously);
  EXPECT_EQ(ring.worst, PathKind::kDirect);
  EXPECT_GE(ring.gbytes_per_s, 50);
  EXPECT_TRUE(ring.wider_gbytes_per_s == 0 || ring.wider_gbytes_per_s > ring.gbytes_per_s)
      << ring.wider_gbytes_per_s;
}

}  // namespace
}  // namespace horing::test
