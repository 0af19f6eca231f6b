// The ho_ family on groups of different sizes.
#include "algorithms/spread.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "../schedule/build_all.h"
#include "proven.h"
#include "schedule/layout.h"
#include "schedule/text.h"
#include "unequal_groups.h"

namespace horing {
namespace {

using Sizes = GroupSizes;

constexpr const char* kSpreading[] = {"ho_ring",    "ho_ring_direct", "ho_direct",
                                      "ho_halving", "ho_doubling",    "ho_shares"};

class Spreading : public testing::TestWithParam<const char*> {};

// Smaller ones in every order: every_order_test.cpp.
TEST_P(Spreading, IsProvenForLargerAndMoreGroups) {
  for (const Sizes& sizes : {Sizes{7, 8}, {8, 1}, {1, 8, 1}, {6, 4, 9}, {2, 3, 2, 3, 2, 3}})
    for (Collective collective : kSymmetric) {
      if (!findAlgorithm(GetParam())->has(collective)) continue;
      SCOPED_TRACE(std::string(collectiveName(collective)) + " on " + textOf(sizes));
      ASSERT_NO_FATAL_FAILURE(expectAllProven(buildAll(GetParam(), collective, Shape::of(sizes))));
    }
}

INSTANTIATE_TEST_SUITE_P(All, Spreading, testing::ValuesIn(kSpreading),
                         [](const auto& tried) { return std::string(tried.param); });

TEST(Shape, OfGroupsOfOneSizeHasNoRails) {
  EXPECT_FALSE(Shape::of(Sizes{4, 4}).rails);
  EXPECT_EQ(Shape::of(Sizes{4, 4}).ranks(), 8);
  EXPECT_TRUE(Shape::of(Sizes{4, 3}).rails);
  EXPECT_EQ(Shape::of(Sizes{4, 3}).ranks(), 7);
}

TEST(Spread, LeavesGroupsOfOneSizeAsTheyAre) {
  for (const char* algorithm : {"ho_ring", "ho_direct", "ho_halving"})
    for (Collective collective : kSymmetric)
      for (Schedule even : buildAll(algorithm, collective, {3, 4})) {
        const Rails rails(Sizes{4, 4, 4});
        Schedule spread = spreadOverRails(even, rails, even.position);
        even.rails = rails;
        even.algorithm.clear();
        even.collective = spread.collective;
        even.ranks = spread.ranks;
        even.position = spread.position;
        EXPECT_EQ(spread.lanes, even.lanes);
        EXPECT_EQ(spread, even);
      }
}

TEST(Spread, SurvivesTheTextCodec) {
  const std::vector<Schedule> all = buildAll("ho_ring", Collective::kAllReduce, Shape::of(Sizes{5, 2, 1}));
  std::string text;
  for (const Schedule& schedule : all) text += formatSchedule(schedule);
  const Result<std::vector<Schedule>> read = parseSchedules(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value(), all);
}

TEST(Verifier, RefusesGroupsThatDoNotFitTheSchedule) {
  std::vector<Schedule> all = buildAll("ho_ring", Collective::kAllGather, Shape::of(Sizes{3, 2}));
  for (Schedule& schedule : all) schedule.rails = Rails(Sizes{4, 2});
  EXPECT_FALSE(verifyValues(all, InPlace::kNo).ok());
  for (Schedule& schedule : all) schedule.rails = Rails(Sizes{4, 1});
  EXPECT_FALSE(verifyValues(all, InPlace::kNo).ok());
  for (Schedule& schedule : all) schedule.rails = Rails(Sizes{3, 2});
  EXPECT_TRUE(verifyValues(all, InPlace::kNo).ok());
  all[1].rails = Rails(Sizes{2, 3});
  EXPECT_FALSE(verifyValues(all, InPlace::kNo).ok());
}

TEST(Catalogue, RefusesGroupsOfDifferentSizesWhereItNeedsOneSize) {
  const Result<Schedule> built =
      buildSchedule("ho_leaders", Collective::kAllReduce, Shape::of(Sizes{4, 3}), 0);
  ASSERT_FALSE(built.ok());
  EXPECT_NE(built.status().message().find("needs groups of one size"), std::string::npos)
      << built.status().message();
}

TEST(Rails, OfFourAndThreeAreSix) {
  const Rails rails(Sizes{4, 3});
  EXPECT_EQ(rails.pieces(), 6);
  EXPECT_EQ(rails.turns(), 1);
  Sizes four, three;
  for (int32_t piece = 0; piece < 6; ++piece) {
    four.push_back(rails.bearer(0, piece));
    three.push_back(rails.bearer(1, piece));
  }
  EXPECT_EQ(four, (Sizes{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(three, (Sizes{4, 4, 5, 5, 6, 6}));
}

// What each rank sends to other groups, in elements of an all-gather of blocks of 240.
TEST(Rails, LetEachRankBearItsFairShare) {
  for (const Sizes& sizes : {Sizes{4, 3}, {5, 2, 1}, {4, 4, 1}, {2, 2, 2, 1}}) {
    SCOPED_TRACE(textOf(sizes));
    const std::vector<Schedule> all = buildAll("ho_ring", Collective::kAllGather, Shape::of(sizes));
    const size_t block = 240;
    for (const Schedule& schedule : all) {
      Extent extent;
      extent.count = block;
      const std::vector<int32_t> ranks = [&] {
        std::vector<int32_t> list(all.size());
        std::iota(list.begin(), list.end(), 0);
        return list;
      }();
      const Layout layout = Layout::make(schedule, extent, ranks.data(), 1);
      const int32_t group = schedule.rails.groupOf(schedule.position);
      size_t received = 0;
      for (StepCursor cursor(schedule.lanes[0], schedule.grid); !cursor.done(); cursor.next())
        for (const Source& source : cursor.step().sources)
          if (takesMessage(source)) received += layout.count(cursor.chunk());
      EXPECT_EQ(received * static_cast<size_t>(sizes[static_cast<size_t>(group)]),
                (all.size() - static_cast<size_t>(sizes[static_cast<size_t>(group)])) * block)
          << "position " << schedule.position;
    }
  }
}

// Chunks cover blocks, or the vector, without a gap, in whatever alignment.
TEST(Rails, CutBlocksAndVectorsWithoutAGap) {
  for (const Sizes& sizes : {Sizes{4, 3}, {8, 7}, {5, 2, 1}, {1, 8}})
    for (Collective collective : kSymmetric)
      for (size_t count : {0, 1, 5, 64, 1000, 100003})
        for (size_t alignment : {1, 16}) {
          const Schedule schedule = buildAll("ho_ring", collective, Shape::of(sizes))[0];
          std::vector<int32_t> ranks(static_cast<size_t>(schedule.ranks));
          std::iota(ranks.rbegin(), ranks.rend(), 0);
          Extent extent;
          extent.count = count;
          const Layout layout = Layout::make(schedule, extent, ranks.data(), alignment);
          const bool gathers = collective == Collective::kAllGather;
          std::map<size_t, size_t> parts;  // from, elements
          for (int32_t chunk = 0; chunk < schedule.grid.chunks(); ++chunk) {
            EXPECT_LE(layout.count(chunk), layout.largestChunk());
            if (layout.count(chunk) > 0)
              parts[gathers ? layout.outputOffset(chunk) : layout.inputOffset(chunk)] = layout.count(chunk);
          }
          size_t reached = 0;
          for (const auto& [from, elements] : parts) {
            ASSERT_EQ(from, reached) << textOf(sizes) << " " << collectiveName(collective) << " " << count;
            reached += elements;
          }
          EXPECT_EQ(reached, collective == Collective::kAllReduce
                                 ? count
                                 : count * static_cast<size_t>(schedule.ranks));
        }
}

}  // namespace
}  // namespace horing
