// The fixed rule by which chunks are cut (Slicing::choose), compared with the best cut.
#include <gtest/gtest.h>

#include <algorithm>

#include "../sanitizer.h"
#include "selection/prediction.h"

namespace horing {
namespace {

MachineModel clusterAt(double gbytes_per_s) {
  MachineModel machine;
  machine.nodes = 16;
  machine.ranks_per_node = 8;
  machine.between = {5, gbytes_per_s, 0, 0};
  machine.inside = {2, 450, 0, 0};
  return machine;
}

// Time by the rule over the time of the best of some numbers of slices that a slot can hold; a chunk is a window or more.
double overBestCut(const Question& question) {
  const Result<Prediction> by_rule = predict(question, Record::kNothing);
  EXPECT_TRUE(by_rule.ok()) << by_rule.status().message();
  if (!by_rule.ok()) return 0;
  Picoseconds best = by_rule.value().result.time;
  const uint64_t chunk = question.bytes / static_cast<uint64_t>(question.machine.ranks());
  for (const int32_t slices : {1, 2, 3, 4, 6, 8, 12, 16, 32, 64}) {
    if (chunk / static_cast<uint64_t>(slices) > question.pipelining.slice_bytes) continue;
    Prediction other = by_rule.value();
    other.question.pipelining.slices_per_chunk = slices;
    const Result<Prediction> cut = predictAgain(other, question.bytes, Record::kNothing);
    EXPECT_TRUE(cut.ok()) << cut.status().message();
    if (cut.ok()) best = std::min(best, cut.value().result.time);
  }
  return static_cast<double>(by_rule.value().result.time) / static_cast<double>(best);
}

// The fastest algorithms of these sizes on these clusters.
struct Case {
  Collective collective;
  const char* algorithm;
  uint64_t bytes;
};
constexpr Case kCases[] = {
    {Collective::kAllReduce, "ho_doubling", 64 << 10},
    {Collective::kAllReduce, "ho_doubling", 256 << 10},
    {Collective::kAllReduce, "ho_doubling", 1 << 20},
    {Collective::kAllReduce, "ho_direct", 4 << 20},
    {Collective::kAllReduce, "ho_ring_direct", 16 << 20},
    {Collective::kAllReduce, "ho_ring_direct", 64 << 20},
    {Collective::kReduceScatter, "ho_direct", 4 << 20},
    {Collective::kReduceScatter, "ho_ring_direct", 16 << 20},
    {Collective::kAllGather, "ho_direct", 1 << 20},
    {Collective::kAllGather, "ho_ring_direct", 16 << 20},
    {Collective::kAllGather, "ho_ring_direct", 64 << 20},
};

// ho_direct sends to all groups at once: with one slice the first chunk is there before the second leaves, with four their slices leave in
// turns and all chunks are there late.
constexpr double kMostOverBestCut = 1.04, kMostOfDirect = 1.3;

// With the windows and slots of the engine and with wider ones.
TEST(SliceRule, IsNearTheBestCut) {
  Pipelining wide;
  wide.window = 8;
  wide.slots_inside = 16;
  constexpr double kGbytesPerS[] = {12.5, 50};
  for (const double gbytes_per_s : test::firstUnderSanitizer(1, kGbytesPerS))
    for (const auto& [collective, algorithm, bytes] : kCases)
      for (const Pipelining& pipelining : {Pipelining(), wide}) {
        Question question;
        question.machine = clusterAt(gbytes_per_s);
        question.collective = collective;
        question.algorithm = algorithm;
        question.bytes = bytes;
        question.pipelining = pipelining;
        const bool is_direct = question.algorithm == "ho_direct";
        EXPECT_LT(overBestCut(question), is_direct ? kMostOfDirect : kMostOverBestCut)
            << collectiveName(collective) << " " << algorithm << " " << bytes << " at " << gbytes_per_s
            << " in windows of " << pipelining.window;
      }
}

// Hops of a chain come once for all windows, so that its depth counts.
TEST(SliceRule, KeepsBroadcastsDeep) {
  Question question;
  question.machine = clusterAt(12.5);
  question.collective = Collective::kBroadcast;
  question.algorithm = "ho_chain";
  question.bytes = 256 << 10;
  const Result<Prediction> by_rule = predict(question, Record::kNothing);
  question.pipelining.slices_per_chunk = 4;
  const Result<Prediction> one_window = predict(question, Record::kNothing);
  ASSERT_TRUE(by_rule.ok() && one_window.ok());
  EXPECT_LT(by_rule.value().result.time, one_window.value().result.time);
}

TEST(SliceRule, CutsIntoFullWindowsAndNotIntoCrumbs) {
  const auto slices = [](Collective collective, size_t bytes, int32_t window) {
    return Slicing::choose(collective, bytes / 4, 4, 65536, window).slicesOf(bytes / 4);
  };
  const auto all_reduce = [&](size_t bytes, int32_t window) {
    return slices(Collective::kAllReduce, bytes, window);
  };
  EXPECT_EQ(all_reduce(0, 4), 0);
  EXPECT_EQ(all_reduce(4096, 4), 1);
  EXPECT_EQ(all_reduce(64 << 10, 4), 4);
  EXPECT_EQ(all_reduce(256 << 10, 4), 4);
  EXPECT_EQ(all_reduce(257 << 10, 4), 8);
  EXPECT_EQ(all_reduce(256 << 10, 64), 8);
  EXPECT_EQ(all_reduce(1 << 20, 64), 16);
  EXPECT_EQ(all_reduce(64 << 10, 1), 1);
  EXPECT_EQ(slices(Collective::kReduce, 64 << 10, 4), 8);
  EXPECT_EQ(slices(Collective::kReduce, 1 << 20, 4), 16);
  EXPECT_GT(all_reduce(SIZE_MAX, 64), 0);
}

}  // namespace
}  // namespace horing
