// The composition with more levels than the catalogue has names for: nodes under switches, islands of cores in a node.
#include "algorithms/nest.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace horing
