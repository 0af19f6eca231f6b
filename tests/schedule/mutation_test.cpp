// Every single fault must be refused, or be shown not to be one: then it belongs to a class below, with its reason, and gives
// the right result in many random orders of an executor that shares nothing with the verifier.
//
// Not among the mutants: the order of a step's sources. It changes the order of the fold and so the rounding, not the value
// that the verifier knows; tests/algorithms holds every algorithm to its order.
#include <gtest/gtest.h>

#include <map>

#include "../sanitizer.h"
#include "build_all.h"
#include "mutants.h"
#include "reference_run.h"
#include "schedule/verify.h"

namespace horing {
namespace {

struct Harmless {
  const char* fault;  // how the text after the step ends
  const char* reason;
};
constexpr Harmless kHarmless[] = {
    {"changes places with the next",
     "the two steps share no chunk, connection or queue, so their order is free"},
    {"keeps in out", "stores one copy more, into a chunk that is overwritten with the result afterwards"},
    {"keeps in out of all", "stores a result: all have entered, and get it once more before they end"},
    {"source 0 is of another kind",
     "in an all-gather `in` and `out` hold the same once the own chunk is copied"},
    {"waits for lane 2", "a later moment, of a lane that itself waits for the right one: slower, not wrong"},
    {"waits for lane 3", "as above"},
    {"waits for lane 4", "as above"},
    {"drops the wait again",
     "a step before waits for as much; of blocks that differ in size that one may have fewer slices"},
    {"waits one step less again", "as above"},
    {"waits for lane 0 again", "as above"},
    {"waits for lane 1 again", "as above"},
    {"drops the wait for another chunk", "waits for company, so that what is sent leaves together"},
    {"waits one step less for another chunk", "as above"},
    {"waits for lane 0 for another chunk", "as above"},
    {"happens twice", "copies the own chunk into the output a second time"},
};

bool isHarmless(const std::string& fault) {
  for (const Harmless& harmless : kHarmless)
    if (fault.ends_with(std::string(": ") + harmless.fault)) return true;
  return false;
}

bool refused(std::span<const Schedule> all) {
  if (!verifyValues(all, InPlace::kNo).ok() || !verifyValues(all, InPlace::kYes).ok()) return true;
  for (int32_t window : {1, 2, 4}) {
    const PlanParameters parameters{
        3 * window, {window}, 1, slotsNeeded(window, 1), scratchSlicesNeeded(window)};
    if (!verifyProgress(all, parameters).ok()) return true;
  }
  return false;
}

bool rightInAnyOrder(std::span<const Schedule> all) {
  for (InPlace in_place : {InPlace::kNo, InPlace::kYes})
    for (uint32_t seed = 0; seed < 12; ++seed)
      if (!fulfilsContract(all, runReference(all, in_place, seed))) return false;
  return true;
}

struct Tally {
  int mutants = 0;
  int accepted = 0;
};

// The proof of a mutant does not depend on the build, and a sanitizer finds as much in some of them.
constexpr int kOneOf = test::kSanitizer ? 8 : 1;

Tally mutateAll(const std::vector<Schedule>& good) {
  Tally tally;
  std::vector<Schedule> all = good;
  for (size_t position = 0; position < good.size(); ++position) {
    for (const Mutant& mutant : mutantsOf(good[position])) {
      if (++tally.mutants % kOneOf != 0) continue;
      all[position] = mutant.schedule;
      if (refused(all)) continue;
      ++tally.accepted;
      EXPECT_TRUE(isHarmless(mutant.fault))
          << good[0].algorithm << ": accepted, and no reason given: " << mutant.fault;
      EXPECT_TRUE(rightInAnyOrder(all)) << good[0].algorithm << ": accepted, and wrong: " << mutant.fault;
    }
    all[position] = good[position];
  }
  return tally;
}

class Mutation : public testing::TestWithParam<Collective> {};

TEST_P(Mutation, EverySingleFaultIsRefusedOrHarmless) {
  Tally total;
  for (const Algorithm& algorithm : algorithmCatalogue()) {
    if (!algorithm.has(GetParam())) continue;
    for (const Shape& shape :
         {Shape{1, 2}, Shape{1, 3}, Shape{4, 1}, Shape{2, 2}, Shape{2, 3}, Shape{3, 2}}) {
      const std::vector<Schedule> good =
          buildAll(algorithm.name, GetParam(), shape, rootsOf(GetParam(), shape.ranks()).back());
      ASSERT_FALSE(refused(good)) << algorithm.name;
      const Tally tally = mutateAll(good);
      EXPECT_GT(tally.mutants, 10) << algorithm.name;
      total.mutants += tally.mutants;
      total.accepted += tally.accepted;
    }
  }
  RecordProperty("mutants", total.mutants);
  RecordProperty("accepted", total.accepted);
  std::printf("%d mutants, one of %d tried, %d of those harmless\n", total.mutants, kOneOf, total.accepted);
  EXPECT_GT(total.mutants, 500);
  EXPECT_LT(total.accepted * 15 * kOneOf, total.mutants);
}

INSTANTIATE_TEST_SUITE_P(All, Mutation, testing::ValuesIn(kEveryCollective), [](const auto& param_info) {
  return std::string(collectiveName(param_info.param));
});

// Plan parameters that are one too few, one too long or different at one rank.
TEST(PlanMutation, OneSlotLessStopsEveryRing) {
  int mutants = 0;
  for (Collective collective : kSymmetric)
    for (int32_t ranks = 3; ranks <= 9; ++ranks)
      for (int32_t window : {1, 2, 4})
        for (int32_t message = 1; message <= window; ++message) {
          const std::vector<Schedule> all = buildAll("ring", collective, {1, ranks});
          PlanParameters plan{
              3 * window + 1, {window}, message, slotsNeeded(window, message), scratchSlicesNeeded(window)};
          EXPECT_TRUE(verifyProgress(all, plan).ok());
          --plan.slots;
          EXPECT_FALSE(verifyProgress(all, plan).ok())
              << ranks << " ranks, window " << window << ", message " << message;
          ++mutants;
        }
  EXPECT_GT(mutants, 100);
}

TEST(PlanMutation, OtherNumbersAtOneRankAreRefused) {
  int mutants = 0;
  for (const char* algorithm : {"ring", "ho_ring"})
    for (Collective collective : kSymmetric)
      for (const Shape& shape : {Shape{2, 2}, Shape{2, 3}, Shape{3, 2}}) {
        const std::vector<Schedule> all = buildAll(algorithm, collective, shape);
        const PlanParameters good{8, {4}, 2, slotsNeeded(4, 2), scratchSlicesNeeded(4)};
        std::vector<PlanParameters> plans(all.size(), good);
        EXPECT_TRUE(verifyProgress(all, plans).ok());
        for (size_t position = 0; position < all.size(); ++position) {
          const auto refusedWith = [&](const PlanParameters& other) {
            ++mutants;
            plans[position] = other;
            const bool ok = verifyProgress(all, plans).ok();
            plans[position] = good;
            return !ok;
          };
          EXPECT_TRUE(refusedWith({8, {2}, 2, good.slots, good.scratch_slices})) << algorithm << ": window";
          EXPECT_TRUE(refusedWith({8, {4}, 1, good.slots, good.scratch_slices}))
              << algorithm << ": shorter messages";
          EXPECT_TRUE(refusedWith({8, {4}, 4, good.slots, good.scratch_slices}))
              << algorithm << ": longer messages";
          EXPECT_TRUE(refusedWith({7, {4}, 2, good.slots, good.scratch_slices})) << algorithm << ": slices";
          EXPECT_TRUE(refusedWith({8, {4}, 2, good.slots - 1, good.scratch_slices}))
              << algorithm << ": slots";
        }
      }
  EXPECT_GT(mutants, 400);
}

}  // namespace
}  // namespace horing
