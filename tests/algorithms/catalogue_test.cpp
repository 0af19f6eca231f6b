// Every algorithm, proven: values in place and not, and progress, for every shape up to 8 x 8 and all n in 1..33.
#include <gtest/gtest.h>

#include <algorithm>

#include "../sanitizer.h"
#include "../schedule/build_all.h"
#include "schedule/verify.h"

namespace horing {
namespace {

struct Case {
  const char* algorithm;
  Collective collective;
};

std::vector<Case> everyCase() {
  std::vector<Case> cases;
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (Collective collective : kEveryCollective)
      if (algorithm.has(collective)) cases.push_back({algorithm.name, collective});
  return cases;
}

std::string caseName(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.algorithm) + "_" + collectiveName(info.param.collective);
}

class EveryAlgorithm : public testing::TestWithParam<Case> {
 protected:
  void expectProven(const Shape& shape) {
    for (const int32_t root : rootsOf(GetParam().collective, shape.ranks())) expectProven(shape, root);
  }

 private:
  void expectProven(const Shape& shape, int32_t root) {
    SCOPED_TRACE(testing::Message() << shape.groups << " x " << shape.members << ", root " << root);
    const std::vector<Schedule> all = buildAll(GetParam().algorithm, GetParam().collective, shape, root);
    ASSERT_EQ(all.size(), static_cast<size_t>(shape.ranks()));
    for (InPlace in_place : {InPlace::kNo, InPlace::kYes}) {
      const Status values = verifyValues(all, in_place);
      ASSERT_TRUE(values.ok()) << values.message();
    }
    for (int32_t window : {1, 2, 4}) {
      for (int32_t message : {1, window}) {
        const PlanParameters plan{
            2 * window + 1, {window}, message, slotsNeeded(window, message), scratchSlicesNeeded(window)};
        const Status progress = verifyProgress(all, plan);
        ASSERT_TRUE(progress.ok()) << progress.message();
      }
    }
  }
};

TEST_P(EveryAlgorithm, IsProvenForEveryShapeUpTo8x8) {
  for (int32_t groups = 1; groups <= test::sweepTo(8); ++groups)
    for (int32_t members = 1; members <= test::sweepTo(8); ++members) expectProven({groups, members});
}

TEST_P(EveryAlgorithm, IsProvenForAllRankCountsUpTo33) {
  for (int32_t ranks = 1; ranks <= test::sweepTo(33); ++ranks) {
    expectProven({1, ranks});
    expectProven({ranks, 1});
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, testing::ValuesIn(everyCase()), caseName);

TEST(Catalogue, RefusesWhatItDoesNotHave) {
  const auto message = [](std::string_view name, Collective collective, const Shape& shape,
                          int32_t position) {
    return buildSchedule(name, collective, shape, position).status().message();
  };
  EXPECT_EQ(message("rong", Collective::kAllReduce, {1, 2}, 0),
            "there is no algorithm 'rong'; see 'horing-plan list'");
  EXPECT_EQ(message("one_shot", Collective::kAllGather, {1, 2}, 0), "algorithm one_shot has no all_gather");
  for (const Shape& shape : {Shape{0, 1}, Shape{1, 0}, Shape{2, 2}})
    EXPECT_NE(message("ring", Collective::kAllReduce, shape, 4).find("position 4 is not in"),
              std::string::npos);
  EXPECT_NE(message("ring", Collective::kAllReduce, {2, 2}, -1).find("position -1 is not in"),
            std::string::npos);
  EXPECT_EQ(findAlgorithm(""), nullptr);
}

TEST(Catalogue, RefusesMoreBlocksThanCanBeNumbered) {
  EXPECT_TRUE(buildSchedule("pairwise", Collective::kAllToAll, {1, 46340}, 46339).ok());
  const Result<Schedule> refused = buildSchedule("pairwise", Collective::kAllToAll, {6000, 8}, 47999);
  EXPECT_EQ(refused.status().code(), Code::kInvalidUsage);
  EXPECT_NE(refused.status().message().find("48000 ranks"), std::string::npos) << refused.status().message();
}

// A lane receives from one peer at a time.
TEST(HoPairwise, LetsEightRanksAtOnceSendIntoAGroup) {
  for (const auto& each : {std::pair{Shape{4, 4}, 8}, std::pair{Shape{2, 8}, 8}, std::pair{Shape{4, 2}, 8},
                           std::pair{Shape{8, 1}, 6}, std::pair{Shape{2, 16}, 16}}) {
    const Shape& shape = each.first;
    SCOPED_TRACE(testing::Message() << shape.groups << " x " << shape.members);
    int receiving = 0;
    for (int32_t position = 0; position < shape.members; ++position) {
      const Schedule schedule = buildSchedule("ho_pairwise", Collective::kAllToAll, shape, position).take();
      for (const Lane& lane : schedule.lanes)
        receiving += std::ranges::any_of(lane.blocks, [&](const Block& block) {
          return std::ranges::any_of(block.body, [&](const Step& step) {
            return std::ranges::any_of(step.sources, [&](const Source& source) {
              return takesMessage(source) && shape.groupOf(source.index) != 0;
            });
          });
        });
    }
    EXPECT_EQ(receiving, each.second);
  }
}

TEST(Catalogue, RefusesStepsThatFoldTooManyRanks) {
  const auto status = [](std::string_view name, Collective collective, const Shape& shape) {
    return buildSchedule(name, collective, shape, shape.ranks() - 1).status();
  };
  for (const auto& [name, collective] :
       {std::pair{"one_shot", Collective::kAllReduce}, std::pair{"direct", Collective::kAllReduce},
        std::pair{"direct", Collective::kReduceScatter}}) {
    EXPECT_TRUE(status(name, collective, {1, kMaxSources}).ok()) << name;
    const Status refused = status(name, collective, {2, kMaxSources / 2 + 1});
    EXPECT_EQ(refused.code(), Code::kInvalidUsage) << name;
    EXPECT_NE(refused.message().find(name), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("1026 ranks in one step"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find("HORING_ALGO"), std::string::npos) << refused.message();
  }
  // The limit is on a group of ho_ring_direct, not on collectives that only copy.
  EXPECT_FALSE(status("ho_ring_direct", Collective::kAllReduce, {2, kMaxSources + 1}).ok());
  EXPECT_TRUE(status("ho_ring_direct", Collective::kAllReduce, {3, kMaxSources}).ok());
  EXPECT_TRUE(status("direct", Collective::kAllGather, {1, 2 * kMaxSources}).ok());
  EXPECT_TRUE(status("ring", Collective::kAllReduce, {1, 4 * kMaxSources}).ok());
}

}  // namespace
}  // namespace horing
