// The facts on which the numbers of the slice loop (windows, slots) rest, and what verifyProgress reports when they are violated.
#include <gtest/gtest.h>

#include <algorithm>

#include "../sanitizer.h"
#include "build_all.h"
#include "schedule/verify.h"

namespace horing {
namespace {

PlanParameters planOf(int32_t slices, int32_t window, int32_t message_slices) {
  return {slices, {window}, message_slices, slotsNeeded(window, message_slices), scratchSlicesNeeded(window)};
}

const Shape kShapes[] = {{1, 3}, {1, 4}, {1, 7}, {3, 1}, {2, 2}, {2, 3}, {3, 2}, {4, 4}, {5, 3}, {8, 2}};

bool sendsData(const Schedule& schedule) {
  return std::any_of(schedule.lanes.begin(), schedule.lanes.end(),
                     [](const Lane& lane) { return !lane.isSignals() && !sendPeers(lane).empty(); });
}

TEST(VerifyProgress, OneSlotMoreThanTheWindowIsAlwaysEnough) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (Collective collective : kSymmetric)
      for (const Shape& shape : kShapes) {
        if (!algorithm.has(collective)) continue;
        const auto all = buildAll(algorithm.name, collective, shape);
        for (int32_t window : {1, 2, 3, 4, 8}) {
          if (window > test::sweepTo(8)) continue;
          for (int32_t message = 1; message <= window; ++message)
            for (int32_t slices : {1, window, 2 * window + 1}) {
              const Status status = verifyProgress(all, planOf(slices, window, message));
              EXPECT_TRUE(status.ok()) << status.message();
            }
        }
      }
}

TEST(VerifyProgress, AsManySlotsAsTheWindowStopRingsOfThreeAndMore) {
  for (const char* algorithm : {"ring", "ho_ring"})
    for (Collective collective : kSymmetric)
      for (const Shape& shape : kShapes) {
        if (algorithm == std::string("ho_ring") && shape.groups < 3 && shape.members < 3) continue;
        const auto all = buildAll(algorithm, collective, shape);
        for (int32_t window : {1, 2, 4}) {
          PlanParameters plan = planOf(2 * window, window, 1);
          plan.slots = window;
          EXPECT_FALSE(verifyProgress(all, plan).ok())
              << algorithm << " " << shape.groups << "x" << shape.members << " window " << window;
        }
      }
}

TEST(VerifyProgress, AsManySlotsAsTheWindowAreEnoughForRingsOfTwo) {
  for (Collective collective : kSymmetric) {
    PlanParameters plan = planOf(8, 4, 1);
    plan.slots = 4;
    EXPECT_TRUE(verifyProgress(buildAll("ring", collective, {1, 2}), plan).ok());
  }
}

// Leaders that speak for nobody else wait for nobody who waits for them: what goes there and what comes are different lanes. So
// does one leader of all that has the whole vector for its part.
bool hasNoCircle(const Algorithm& algorithm, Collective collective, const Shape& shape) {
  if (algorithm.name == std::string_view("ho_leaders_split")) return shape.groups == 1;
  return algorithm.name == std::string_view("ho_leaders") && collective != Collective::kAllReduce &&
         shape.members == 1;
}

TEST(VerifyProgress, MessagesLongerThanTheWindowStopEveryShapeWithACircle) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (Collective collective : kSymmetric)
      for (const Shape& shape : kShapes) {
        if (!algorithm.has(collective)) continue;
        const auto all = buildAll(algorithm.name, collective, shape);
        if (!sendsData(all[0])) continue;
        for (int32_t window : {1, 2, 4}) {
          PlanParameters plan = planOf(3 * window, window, window + 1);
          plan.slots = 16;
          EXPECT_EQ(verifyProgress(all, plan).ok(), hasNoCircle(algorithm, collective, shape))
              << algorithm.name;
        }
      }
}

TEST(VerifyProgress, ScratchNeedsOneSliceAtLeastAndTheWindowPlusOneIsEnough) {
  const auto all = buildAll("ho_ring", Collective::kReduceScatter, {3, 3});
  PlanParameters plan = planOf(12, 4, 1);
  EXPECT_TRUE(verifyProgress(all, plan).ok());
  plan.scratch_slices = 0;
  EXPECT_NE(verifyProgress(all, plan).message().find("scratch_slices is 0; 1 to"), std::string::npos);
}

// Lane 0 fills a queue with two chunks; lane 1 begins to empty it when the second one is there.
TEST(VerifyProgress, TooLittleScratchStops) {
  Schedule one{"hand", Collective::kAllReduce, 0, 1, {1, 2}, 1, {}};
  const Step fill0{0, {{Source::Kind::kIn, 0}}, {Keep::Kind::kScratch, 0}, -1, {}};
  Step fill1 = fill0;
  fill1.chunk = 1;
  Step empty0{0, {{Source::Kind::kScratch, 0}}, {Keep::Kind::kOut, 0}, -1, {0, 1, 0}, true};
  Step empty1 = empty0;
  empty1.chunk = 1;
  one.lanes = {{{{{fill0, fill1}, 1, 0, 0}}}, {{{{empty0, empty1}, 1, 0, 0}}}};
  ASSERT_TRUE(verifyValues({&one, 1}, InPlace::kNo).ok()) << verifyValues({&one, 1}, InPlace::kNo).message();
  PlanParameters plan{4, {2}, 1, 3, 3};
  EXPECT_TRUE(verifyProgress({&one, 1}, plan).ok()) << verifyProgress({&one, 1}, plan).message();
  plan.scratch_slices = 2;
  EXPECT_NE(verifyProgress({&one, 1}, plan)
                .message()
                .find("position 0, lane 0, step 1, slice 0 waits for room in scratch; position 0, lane 1, "
                      "step 0, slice 0 waits "
                      "for its lane 0, step 1; which closes the circle"),
            std::string::npos)
      << verifyProgress({&one, 1}, plan).message();
}

TEST(VerifyProgress, NamesTheCircle) {
  const auto all = buildAll("ring", Collective::kAllGather, {1, 3});
  PlanParameters plan = planOf(4, 2, 1);
  plan.slots = 2;
  EXPECT_EQ(
      verifyProgress(all, plan).message(),
      "plan of ring all_gather stops for ever with 4 slices, window 2, 1 slices per message, 2 slots, 3 "
      "scratch slices: "
      "position 0, lane 0, step 1, slice 0 waits for a free slot to position 1; "
      "position 1, lane 0, step 1, slice 0 waits for a free slot to position 2; "
      "position 2, lane 0, step 1, slice 0 waits for a free slot to position 0; which closes the circle");
}

TEST(VerifyProgress, LanesMayDifferInWindowUnlessTheyShareScratch) {
  const auto gather = buildAll("ho_ring", Collective::kAllGather, {2, 3});
  EXPECT_TRUE(verifyProgress(gather, {12, {2, 4}, 2, slotsNeeded(4, 2), 5}).ok());
  const auto scatter = buildAll("ho_ring", Collective::kReduceScatter, {2, 3});
  EXPECT_NE(verifyProgress(scatter, {12, {2, 4}, 2, slotsNeeded(4, 2), 5})
                .message()
                .find("the windows of the two lanes differ"),
            std::string::npos);
}

TEST(VerifyProgress, WindowsThatDifferAtTwoRanksAreNamed) {
  const auto all = buildAll("ring", Collective::kAllGather, {1, 3});
  std::vector<PlanParameters> plans(3, planOf(8, 4, 1));
  plans[1].window = {2};
  EXPECT_NE(verifyProgress(all, plans).message().find("the windows of the two differ"), std::string::npos)
      << verifyProgress(all, plans).message();
}

// Two messages of one chunk on one connection can only be told apart by their slices.
TEST(VerifyProgress, SlicesOutOfOrderAreNamed) {
  const Step send{0, {{Source::Kind::kIn, 0}}, {}, 1, {}};
  const Step keep{0, {{Source::Kind::kRecv, 0}}, {Keep::Kind::kOut, 0}, -1, {}};
  const std::vector<Schedule> both = {
      {"hand", Collective::kAllReduce, 0, 2, {1, 1}, 0, {{{{{send, send}, 1, 0, 0}}}}},
      {"hand", Collective::kAllReduce, 1, 2, {1, 1}, 0, {{{{{keep, keep}, 1, 0, 0}}}}}};
  EXPECT_TRUE(verifyProgress(both, planOf(4, 2, 1)).ok());
  const std::vector<PlanParameters> plans = {planOf(4, 4, 1), {4, {2}, 1, 5, 5}};
  EXPECT_NE(verifyProgress(both, plans)
                .message()
                .find("gets slice 2 of chunk 0 from position 0 where slice 0 of chunk 0 is due: the windows "
                      "of the two differ"),
            std::string::npos)
      << verifyProgress(both, plans).message();
}

TEST(VerifyProgress, ThreeWindowsOfSlicesSayWhatManySay) {
  for (const char* algorithm : {"ring", "ho_ring", "ho_ring_direct", "direct"})
    for (Collective collective : kSymmetric)
      for (const Shape& shape : {Shape{1, 3}, Shape{2, 2}, Shape{2, 3}, Shape{3, 3}}) {
        const auto all = buildAll(algorithm, collective, shape);
        for (int32_t window : {1, 2, 4})
          for (int32_t slots = 1; slots <= window + 1; ++slots)
            for (int32_t scratch : {1, window, window + 1}) {
              PlanParameters plan{97, {window}, 1, slots, scratch};
              const bool many = verifyProgress(all, plan).ok();
              plan.slices = representativeSlices(97, window);
              EXPECT_EQ(verifyProgress(all, plan).ok(), many)
                  << algorithm << " window " << window << " slots " << slots << " scratch " << scratch;
            }
      }
}

TEST(VerifyProgress, RefusesParametersOutOfRange) {
  const auto all = buildAll("ring", Collective::kAllGather, {1, 2});
  const std::pair<PlanParameters, const char*> bad[] = {
      {{0, {1}, 1, 2, 2}, "slices is 0"},
      {{kMaxSlices + 1, {1}, 1, 2, 2}, "slices is 1048577"},
      {{1, {}, 1, 2, 2}, "windows for 0 lanes"},
      {{1, std::vector<int32_t>(9, 1), 1, 2, 2}, "windows for 9 lanes"},
      {{1, {1, 0}, 1, 2, 2}, "window is 0"},
      {{1, {kMaxWindow + 1}, 1, 2, 2}, "window is 65537"},
      {{1, {1}, 0, 2, 2}, "message_slices is 0"},
      {{1, {1}, 1, 0, 2}, "slots is 0"},
      {{1, {1}, 1, kMaxQueueSlices + 1, 2}, "slots is 65537"},
  };
  for (const auto& [plan, why] : bad) {
    const Status status = verifyProgress(all, plan);
    ASSERT_FALSE(status.ok()) << why;
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  }
  EXPECT_FALSE(verifyProgress(all, std::vector<PlanParameters>(3)).ok());
  EXPECT_FALSE(verifyProgress({}, PlanParameters{}).ok());
}

}  // namespace
}  // namespace horing
