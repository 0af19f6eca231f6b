// What enters and leaves each group of a job whose groups differ in size, beside what no algorithm avoids.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "../schedule/build_all.h"
#include "schedule/layout.h"
#include "unequal_groups.h"

namespace horing {
namespace {

struct Traffic {
  size_t into = 0, out = 0;  // elements
};

// By group, over its link to the others. The sizes of sent and received messages are counted at their own ends.
std::vector<Traffic> trafficOf(const std::vector<Schedule>& all, const Shape& shape, size_t count) {
  std::vector<int32_t> ranks(all.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Extent extent;
  extent.count = count;
  std::vector<Traffic> traffic(static_cast<size_t>(shape.groups));
  for (const Schedule& schedule : all) {
    const Layout layout = Layout::make(schedule, extent, ranks.data(), 16);
    const int32_t group = shape.groupOf(schedule.position);
    Traffic& own = traffic[static_cast<size_t>(group)];
    for (const Lane& lane : schedule.lanes)
      for (StepCursor cursor(lane, schedule.grid); !cursor.done(); cursor.next()) {
        const size_t elements = layout.count(cursor.chunk());
        for (const Source& source : cursor.step().sources)
          if (source.kind == Source::Kind::kRecv && shape.groupOf(source.index) != group)
            own.into += elements;
        const int32_t to = cursor.step().send_to;
        if (to >= 0 && shape.groupOf(to) != group) own.out += elements;
      }
  }
  return traffic;
}

constexpr double kMost = 1.03;
constexpr size_t kVector =
    (size_t{16} << 20) / sizeof(float) + 7;  // elements; no group's part is a round number

class LinkBytes : public testing::TestWithParam<std::tuple<const char*, GroupSizes>> {
 protected:
  const char* algorithm_ = std::get<0>(GetParam());
  const GroupSizes& sizes_ = std::get<1>(GetParam());
  const Shape shape_ = Shape::of(sizes_);

  std::vector<Traffic> traffic(Collective collective) const {
    const size_t count = collective == Collective::kAllReduce ? kVector : block();
    return trafficOf(buildAll(algorithm_, collective, shape_), shape_, count);
  }
  size_t block() const { return kVector / static_cast<size_t>(shape_.ranks()); }
  // Of the other groups' ranks.
  double blocksOfOthers(int32_t group) const {
    return static_cast<double>(block()) * (shape_.ranks() - shape_.sizeOf(group));
  }
};

// Into a group all-gather brings the blocks of the others. What leaves it is not given: in a ring a group passes on what the next one
// needs, so at most what the smallest must receive; without one the group sends its blocks to each other group, which for 5+2+1 is 1.25 D.
// Reduce-scatter is the mirror image.
TEST_P(LinkBytes, AreTheLeastOfAllGatherAndReduceScatter) {
  const bool is_ring = std::string(algorithm_).starts_with("ho_ring");
  double busiest = 0;
  for (int32_t group = 0; group < shape_.groups; ++group) {
    busiest = std::max(busiest, blocksOfOthers(group));
    const double own = static_cast<double>(block()) * shape_.sizeOf(group);
    if (!is_ring) busiest = std::max(busiest, own * (shape_.groups - 1));
  }
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    const std::vector<Traffic> found = traffic(collective);
    for (int32_t group = 0; group < shape_.groups; ++group) {
      const Traffic& link = found[static_cast<size_t>(group)];
      const bool gathers = collective == Collective::kAllGather;
      const auto given = static_cast<double>(gathers ? link.into : link.out);
      EXPECT_LE(given, kMost * blocksOfOthers(group)) << collectiveName(collective) << ", group " << group;
      EXPECT_GE(given, blocksOfOthers(group)) << collectiveName(collective) << ", group " << group;
      EXPECT_LE(static_cast<double>(gathers ? link.out : link.into), kMost * busiest)
          << collectiveName(collective) << ", group " << group;
    }
  }
}

TEST_P(LinkBytes, AreTheLeastOfAllReduceInBothDirections) {
  const double least = 2.0 * static_cast<double>(kVector) * (shape_.groups - 1) / shape_.groups;
  const std::vector<Traffic> found = traffic(Collective::kAllReduce);
  double into = 0, out = 0;
  for (const Traffic& link : found) {
    EXPECT_LE(static_cast<double>(link.into), kMost * least);
    EXPECT_LE(static_cast<double>(link.out), kMost * least);
    into += static_cast<double>(link.into);
    out += static_cast<double>(link.out);
  }
  EXPECT_EQ(into, out);
  EXPECT_EQ(into, 2.0 * static_cast<double>(kVector) * (shape_.groups - 1));
}

INSTANTIATE_TEST_SUITE_P(
    UnequalGroups, LinkBytes,
    testing::Combine(testing::Values("ho_ring", "ho_ring_direct", "ho_direct", "ho_halving"),
                     testing::Values(GroupSizes{4, 3}, GroupSizes{5, 2, 1}, GroupSizes{8, 7},
                                     GroupSizes{4, 4, 1}, GroupSizes{2, 2, 2, 1})),
    [](const auto& tried) {
      std::string sizes = textOf(std::get<1>(tried.param));
      std::replace(sizes.begin(), sizes.end(), '+', '_');
      return std::string(std::get<0>(tried.param)) + "_" + sizes;
    });

}  // namespace
}  // namespace horing
