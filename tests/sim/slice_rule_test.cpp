// The fixed rule by which chunks are cut (Slicing::choose), beside the best cut there is.
#include <gtest/gtest.h>

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
  for (const int32_t slices : {1, 2, 4, 12, 16, 32, 64}) {
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

// With the windows and slots of the engine and with wider ones.
TEST(SliceRule, IsWithinTwoPercentOfTheBestCut) {
  Pipelining wide;
  wide.window = 8;
  wide.slots_inside = 16;
  for (const double gbytes_per_s : {12.5, 50.0})
    for (const auto& [collective, algorithm, bytes] : kCases)
      for (const Pipelining& pipelining : {Pipelining(), wide}) {
        Question question;
        question.machine = clusterAt(gbytes_per_s);
        question.collective = collective;
        question.algorithm = algorithm;
        question.bytes = bytes;
        question.pipelining = pipelining;
        EXPECT_LT(overBestCut(question), 1.02)
            << collectiveName(collective) << " " << algorithm << " " << bytes << " at " << gbytes_per_s
            << " in windows of " << pipelining.window;
      }
}

}  // namespace
}  // namespace horing
