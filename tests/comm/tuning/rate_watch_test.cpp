// The decision when to measure rates again, on made-up times.
#include "comm/tuning/rate_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace horing {
namespace {

constexpr size_t kBytes = 16 << 20;
constexpr double kMeasuringNs = 150e6, kCallNs = 250e6;

// One rank, whose figures are those of all. True: the ranks measure.
bool call(RateWatch& watch, double ns, size_t bytes = kBytes) {
  return watch.ended(bytes, static_cast<int64_t>(ns)) && watch.look(watch.nsPerByte());
}

// The number of calls until the ranks measure; 0: none of them.
int callsToMeasuring(RateWatch& watch, double ns, int most) {
  for (int calls = 1; calls <= most; ++calls)
    if (call(watch, ns)) return calls;
  return 0;
}

// Equal groups, and so many calls that a measurement is allowed.
RateWatch steady() {
  RateWatch watch(kMeasuringNs, false);
  EXPECT_EQ(callsToMeasuring(watch, kCallNs, 100), 0);
  return watch;
}

TEST(RateWatch, MeasuresAfterTwoLooksThatDiffer) {
  for (const double factor : {2.0, 1.2, 0.8, 0.5}) {
    RateWatch watch = steady();
    EXPECT_EQ(callsToMeasuring(watch, kCallNs * factor, 10), 2) << factor;
  }
}

TEST(RateWatch, TakesOneSlowCallAndSmallDifferencesForNoise) {
  RateWatch watch = steady();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(call(watch, i % 2 == 0 ? 3 * kCallNs : 1.1 * kCallNs));
}

TEST(RateWatch, LooksEveryTenthOfASecondAtTheFastestOfSmallCalls) {
  RateWatch watch(kMeasuringNs, false);
  constexpr size_t kSmall = 1 << 20;
  constexpr double kSmallNs = 10e6;
  int looks = 0;
  for (int i = 0; i < 1001; ++i) {
    // Most calls find other ranks late.
    if (!watch.ended(kSmall, static_cast<int64_t>(i % 5 == 0 ? kSmallNs : 3 * kSmallNs))) continue;
    ++looks;
    EXPECT_NEAR(watch.nsPerByte(), kSmallNs / kSmall, i < 5 ? 2 * kSmallNs / kSmall : 1e-6);
    EXPECT_FALSE(watch.look(watch.nsPerByte()));
  }
  EXPECT_EQ(looks, 101);
}

TEST(RateWatch, ComparesCallsOfOneSize) {
  RateWatch watch(kMeasuringNs, false);
  for (int i = 0; i < 200; ++i) {
    const bool is_large = i / 10 % 2 == 0;
    EXPECT_FALSE(is_large ? call(watch, kCallNs) : call(watch, kCallNs / 8, kBytes / 16)) << i;
  }
}

// Rates that change all the time: measurements take their part of the time in calls, and no more.
TEST(RateWatch, LimitsTheTimeThatMeasurementsTake) {
  RateWatch watch = steady();
  double calls_ns = 0, measuring_ns = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double ns = i / 5 % 2 == 0 ? kCallNs : 2 * kCallNs;
    calls_ns += ns;
    if (!call(watch, ns)) continue;
    measuring_ns += kMeasuringNs;
    watch.measured(kMeasuringNs, true, false);
  }
  EXPECT_LE(measuring_ns, RateWatch::kMostMeasuring * calls_ns);
  EXPECT_GE(measuring_ns, RateWatch::kMostMeasuring * calls_ns / 4);
}

// Calls have become slower for another reason: the ranks measure more and more seldom, and then expect it.
TEST(RateWatch, GetsUsedToSlowCalls) {
  RateWatch watch = steady();
  std::vector<int> at;
  for (int i = 0; i < 10'000; ++i)
    if (call(watch, 2 * kCallNs)) {
      at.push_back(i);
      watch.measured(kMeasuringNs, false, false);
    }
  ASSERT_EQ(at.size(), static_cast<size_t>(RateWatch::kUnchangedMeasurements));
  for (size_t i = 2; i < at.size(); ++i) EXPECT_GT(at[i] - at[i - 1], at[i - 1] - at[i - 2]);
  EXPECT_EQ(callsToMeasuring(watch, kCallNs, 10), 2) << "it notices that the reason has gone";
}

// The job began beside other work.
TEST(RateWatch, ForgetsThatTheFirstCallsWereSlow) {
  RateWatch watch(kMeasuringNs, false);
  for (int i = 0; i < RateWatch::kFirstLooks; ++i) EXPECT_FALSE(call(watch, 2 * kCallNs));
  EXPECT_GT(callsToMeasuring(watch, kCallNs, 100), 0);
  watch.measured(kMeasuringNs, false, false);
  EXPECT_EQ(callsToMeasuring(watch, kCallNs, 100), 0);
}

// A group that is spared may become fast again without an effect on any call.
TEST(RateWatch, MeasuresUnaskedWhereGroupsDiffer) {
  RateWatch watch(kMeasuringNs, true);
  const int first = callsToMeasuring(watch, kCallNs, 10'000);
  ASSERT_GT(first, 0);
  watch.measured(kMeasuringNs, false, true);
  EXPECT_EQ(callsToMeasuring(watch, kCallNs, 10'000), first);
  EXPECT_LE(kMeasuringNs, 0.0125 * kCallNs * first);
  watch.measured(kMeasuringNs, true, false);
  EXPECT_EQ(callsToMeasuring(watch, kCallNs, 10'000), 0) << "they are equal again";
}

TEST(RateWatch, SurvivesFiguresThatAreNoTimes) {
  for (const double figure : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(), std::numeric_limits<double>::max()}) {
    RateWatch watch(kMeasuringNs, false);
    for (int i = 0; i < 10; ++i)
      if (watch.ended(kBytes, static_cast<int64_t>(kCallNs))) (void)watch.look(figure);
    // The next look comes, be it late.
    bool looks = false;
    for (int i = 0; i < 1'000'000 && !looks; ++i) looks = watch.ended(size_t{1} << 40, 1);
    EXPECT_TRUE(looks) << figure;
  }
}

}  // namespace
}  // namespace horing
