// The composition with more levels than the catalogue has names for: nodes under switches, islands of cores in a node.
#include "algorithms/nest.h"

#include <gtest/gtest.h>

#include <bit>

#include "../schedule/build_all.h"
#include "proven.h"

namespace horing {
namespace {

std::vector<Schedule> nestOfAll(Collective collective, const std::vector<Level>& levels) {
  int32_t ranks = 1;
  for (const Level& level : levels) ranks *= level.size;
  std::vector<Schedule> all;
  for (int32_t position = 0; position < ranks; ++position) {
    Schedule& schedule = all.emplace_back(buildNest(collective, levels, position));
    schedule.algorithm = "nest";
    schedule.collective = collective;
    schedule.position = position;
    schedule.ranks = ranks;
  }
  return all;
}

void expectProven(Collective collective, const std::vector<Level>& levels) {
  std::string trace = collectiveName(collective);
  for (const Level& level : levels)
    trace += formatString(", %d parts pattern %d", level.size, static_cast<int>(level.pattern));
  SCOPED_TRACE(trace);
  expectAllProven(nestOfAll(collective, levels));
}

TEST(Nest, IsProvenForThreeLevelsOfAnyPattern) {
  const std::array<int32_t, 3> sizes[] = {{2, 3, 2}, {3, 2, 4}, {4, 3, 3}, {1, 3, 2}, {2, 1, 3}, {5, 2, 1}};
  const Pattern patterns[] = {Pattern::kRing, Pattern::kDirect, Pattern::kHalving};
  for (Collective collective : kSymmetric)
    for (const auto& [a, b, c] : sizes)
      for (Pattern outer : patterns)
        for (Pattern middle : patterns)
          for (Pattern inner : patterns) expectProven(collective, {{a, outer}, {b, middle}, {c, inner}});
}

TEST(Nest, IsProvenForFourLevels) {
  for (Collective collective : kSymmetric)
    expectProven(collective,
                 {{3, Pattern::kHalving}, {2, Pattern::kRing}, {2, Pattern::kDirect}, {3, Pattern::kRing}});
}

// Each byte comes once over each level's line: the outermost, slowest level moves the least that is possible.
TEST(Nest, MovesOneChunkPerMemberOverTheOutermostLevel) {
  const std::vector<Schedule> all =
      nestOfAll(Collective::kAllGather, {{4, Pattern::kRing}, {3, Pattern::kHalving}, {2, Pattern::kDirect}});
  for (const Schedule& schedule : all) {
    ASSERT_EQ(schedule.lanes.size(), 3u);
    EXPECT_EQ(schedule.lanes[0].stepCount(), 4);
    for (const int32_t peer : recvPeers(schedule.lanes[0]))
      EXPECT_EQ(peer % 6, schedule.position % 6) << "leaves its rail";
  }
}

// A binomial tree: if all groups sent to the root's at once, the queue of its link would overflow, as it did between four nodes.
TEST(Nest, GathersAtTheRootFromFewGroups) {
  for (const auto& [groups, members] : {std::pair(4, 4), {5, 3}, {8, 2}, {16, 1}})
    for (const int32_t root : {0, 1, groups * members - 1}) {
      size_t into_group = 0, received = 0;
      for (const Schedule& schedule : buildAll("ho_ordered", Collective::kReduce, {groups, members}, root)) {
        if (schedule.position / members != root / members) continue;
        for (const int32_t peer : recvPeers(schedule.lanes.back()))
          into_group += peer / members != root / members ? 1 : 0;
        received += static_cast<size_t>(schedule.lanes.back().stepCount());
      }
      const int depth = std::bit_width(static_cast<uint32_t>(groups - 1));
      EXPECT_EQ(into_group, static_cast<size_t>(members * depth)) << groups << " x " << members;
      EXPECT_EQ(received, static_cast<size_t>(groups * (2 * members - 1)))
          << "each chunk once, the others by way of a member";
    }
}

}  // namespace
}  // namespace horing
