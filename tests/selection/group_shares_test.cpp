// Groups that reduce parts of different sizes.
#include "selection/group_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../algorithms/proven.h"
#include "../schedule/build_all.h"
#include "schedule/layout.h"
#include "schedule/text.h"

namespace horing {
namespace {

std::vector<double> partsOf(const Shares& shares) {
  std::vector<double> parts;
  for (const int32_t part : shares.parts()) parts.push_back(static_cast<double>(part) / Shares::kWhole);
  return parts;
}

// By rates: how long the slowest group sends, for a vector that takes 1 at rate 1.
double timeOf(const std::vector<double>& rates, const std::vector<double>& parts) {
  double time = 0;
  for (size_t group = 0; group < rates.size(); ++group)
    time = std::max(time, (1 + static_cast<double>(rates.size() - 2) * parts[group]) / rates[group]);
  return time;
}

double leastTime(const std::vector<double>& rates) {
  const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
  return std::max(1 / *std::min_element(rates.begin(), rates.end()),
                  2 * static_cast<double>(rates.size() - 1) / sum);
}

TEST(SharesByRate, AreEmptyWhereEqualOnesAreAsGood) {
  EXPECT_FALSE(sharesByRate(std::vector<double>{}));
  EXPECT_FALSE(sharesByRate(std::vector<double>{1, 0.1}));
  EXPECT_FALSE(sharesByRate(std::vector<double>{1, 1, 1}));
  EXPECT_FALSE(sharesByRate(withoutNoise(std::vector<double>{1, 1.15, 0.98})));
  EXPECT_TRUE(sharesByRate(std::vector<double>{1, 1.15, 0.98}));
  EXPECT_TRUE(withoutNoise({}).empty());
}

TEST(SharesByRate, LetASlowGroupReduceLessOrNothing) {
  const std::vector<double> leaf = partsOf(sharesByRate(std::vector<double>{5, 5, 2, 5}));
  EXPECT_EQ(leaf[2], 0);
  for (const size_t group : {0, 1, 3}) EXPECT_NEAR(leaf[group], 1.0 / 3, 1e-4);
  // All take 6 / 37 of the time that the vector takes at rate 1. The second group counts as one of rate 10.
  const std::vector<double> member = partsOf(sharesByRate(withoutNoise(std::vector<double>{10, 9, 7, 10})));
  EXPECT_NEAR(member[2], (7 * 6 / 37.0 - 1) / 2, 1e-4);
  for (const size_t group : {0, 1, 3}) EXPECT_NEAR(member[group], (10 * 6 / 37.0 - 1) / 2, 1e-4);
}

TEST(SharesByRate, ReachTheBoundWhateverTheRates) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> rate(0.05, 1);
  for (int tried = 0; tried < 2000; ++tried) {
    std::vector<double> rates(3 + random() % (tried % 20 == 0 ? 1022 : 126));
    std::generate(rates.begin(), rates.end(), [&] { return rate(random); });
    rates[0] = 1;
    const Shares shares = sharesByRate(rates);
    if (!shares) continue;
    ASSERT_TRUE(Shares::areValid(shares.parts()));
    // Rates are rounded to a thousandth, parts to 1 / kWhole.
    ASSERT_LE(timeOf(rates, partsOf(shares)), 1.01 * leastTime(rates));
  }
}

const std::vector<int32_t> kParts[] = {
    {Shares::kWhole / 2, 0, Shares::kWhole / 2}, {0, 1, Shares::kWhole - 1}, {Shares::kWhole, 0, 0}};

TEST(HoShares, IsProvenForEveryShape) {
  for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{2, 2, 2}, {1, 1, 1}, {3, 1, 2}}) {
    Shape shape = Shape::of(sizes);
    shape.shares = Shares(kParts[0]);
    const std::vector<Schedule> all = buildAll("ho_shares", Collective::kAllReduce, shape);
    EXPECT_EQ(all[0].shares, shape.shares);
    ASSERT_NO_FATAL_FAILURE(expectAllProven(all));
  }
}

TEST(HoShares, IsProvenBetweenManyGroups) {
  for (const int32_t groups : {9, 16, 33, 64})
    for (const int32_t slow : {1, groups / 8, groups / 2})
      for (const double rate : {0.9, 0.5, 0.25}) {
        std::vector<double> rates(static_cast<size_t>(groups), 1);
        std::fill_n(rates.begin() + groups / 3, slow, rate);
        Shape shape{groups, 1};
        shape.shares = sharesByRate(rates);
        ASSERT_TRUE(shape.shares);
        ASSERT_NO_FATAL_FAILURE(expectAllProven(buildAll("ho_shares", Collective::kAllReduce, shape)))
            << slow << " of " << groups << " groups at " << rate;
      }
}

// A row of a slow group is small, and one of a group that owns nothing is empty.
TEST(HoShares, HasShortWindows) {
  const auto windowOf = [](int32_t groups, const Shares& shares) {
    Shape shape{groups, 2};
    shape.shares = shares;
    return buildSchedule("ho_shares", Collective::kAllReduce, shape, 0).take().windowOf(4);
  };
  const auto sharesOf = [](int32_t groups, double rate) {
    std::vector<double> rates(static_cast<size_t>(groups), 1);
    rates[1] = rate;
    return sharesByRate(rates);
  };
  for (const auto& [groups, slices] : {std::pair(3, 4), {4, 4}, {5, 3}, {8, 2}, {9, 1}, {64, 1}}) {
    EXPECT_EQ(windowOf(groups, {}), 4);
    EXPECT_EQ(windowOf(groups, sharesOf(groups, 0.8)), slices) << groups;
    EXPECT_EQ(windowOf(groups, sharesOf(groups, 0.25)), 1) << groups;
  }
}

// As deep a pipeline as in trees, of slices that are worth a message.
TEST(HoShares, HasSlicesThatFollowOneAnother) {
  constexpr size_t kKiB = 1024, kSlot = 64 * kKiB;
  Shape shape{4, 1};
  shape.shares = Shares({Shares::kWhole, 0, 0, 0});
  Schedule schedule = buildSchedule("ho_shares", Collective::kAllReduce, shape, 0).take();
  const auto slices_of = [&](int32_t chunk_kib) {
    const size_t elements = static_cast<size_t>(chunk_kib) * kKiB / 4;
    return Slicing::choose(schedule, elements, 4, kSlot, 1).slicesOf(elements);
  };
  for (const auto& [chunk_kib, slices] :
       {std::pair(1, 1), {16, 1}, {32, 2}, {64, 4}, {128, 8}, {256, 8}, {512, 16}, {2048, 64}, {8192, 128}})
    EXPECT_EQ(slices_of(chunk_kib), slices) << chunk_kib;
  const auto share_least_of = [](int32_t least) {
    return Shares({Shares::kWhole - 3 * least, least, least, least});
  };
  constexpr int32_t kEighthOfLargest = Shares::kWhole / 11;
  schedule.shares = share_least_of(kEighthOfLargest);
  EXPECT_EQ(slices_of(512), 16) << "a part that is nearly none";
  schedule.shares = share_least_of(kEighthOfLargest + 1);
  for (const auto& [chunk_kib, slices] : {std::pair(128, 8), {512, 8}, {1024, 16}, {8192, 128}})
    EXPECT_EQ(slices_of(chunk_kib), slices) << chunk_kib;
  shape.shares = {};
  const Schedule equal = buildSchedule("ho_shares", Collective::kAllReduce, shape, 0).take();
  EXPECT_EQ(Slicing::choose(equal, 32 * kKiB, 4, kSlot, 1).slicesOf(32 * kKiB), 2);
}

// Rows cover the vector without a gap, and each has its part of it.
TEST(HoShares, CutsTheVectorWithoutAGap) {
  for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{2, 2, 2}, {3, 1, 2}})
    for (const std::vector<int32_t>& parts : kParts)
      for (const size_t count : {0, 1, 5, 64, 1000, 100003})
        for (const size_t alignment : {1, 16}) {
          Shape shape = Shape::of(sizes);
          shape.shares = Shares(parts);
          const Schedule schedule = buildAll("ho_shares", Collective::kAllReduce, shape)[0];
          Extent extent;
          extent.count = count;
          const Layout layout = Layout::make(schedule, extent, nullptr, alignment);
          size_t reached = 0;
          for (int32_t row = 0; row < 3; ++row) {
            const size_t begin = reached;
            for (int32_t column = 0; column < schedule.grid.columns; ++column) {
              const int32_t chunk = row * schedule.grid.columns + column;
              EXPECT_LE(layout.count(chunk), layout.largestChunk());
              EXPECT_EQ(layout.inputOffset(chunk), layout.outputOffset(chunk));
              if (layout.count(chunk) == 0) continue;
              EXPECT_EQ(layout.outputOffset(chunk), reached);
              reached += layout.count(chunk);
            }
            const double due = static_cast<double>(count) * parts[static_cast<size_t>(row)] / Shares::kWhole;
            EXPECT_NEAR(static_cast<double>(reached - begin), due, static_cast<double>(2 * alignment));
          }
          EXPECT_EQ(reached, count);
        }
}

TEST(ChangedRates, DifferByAFifthFromThoseThatAPlanFollows) {
  const std::vector<double> followed{100, 100, 50};
  for (const std::vector<double>& same :
       {std::vector<double>{100, 100, 50}, {90, 80, 50}, {10, 10, 5.9}, {10, 9, 4.2}})
    EXPECT_FALSE(haveChanged(followed, same)) << same[2];
  for (const std::vector<double>& other :
       {std::vector<double>{100, 100, 61}, {100, 100, 41}, {50, 100, 50}, {100, 100, 100}})
    EXPECT_TRUE(haveChanged(followed, other)) << other[2];
  EXPECT_TRUE(haveChanged({{100, 100, 100}}, {{100, 100, 80}}));
  EXPECT_FALSE(haveChanged({}, {}));
}

// What is left of noise once does not come and go: no rates change a plan back and forth that differ by less than a fifth.
TEST(ChangedRates, HaveHysteresis) {
  const std::vector<double> a{100, 100, 82}, b{100, 100, 85};
  EXPECT_TRUE(differ(withoutNoise(a)));
  EXPECT_FALSE(differ(withoutNoise(b)));
  EXPECT_FALSE(haveChanged(withoutNoise(a), b));
  EXPECT_FALSE(haveChanged(withoutNoise(b), b));
}

TEST(HoShares, SurvivesTheTextCodec) {
  Shape shape{3, 2};
  shape.shares = Shares(kParts[1]);
  std::vector<Schedule> all = buildAll("ho_shares", Collective::kAllReduce, shape);
  std::string text;
  for (const Schedule& schedule : all) text += formatSchedule(schedule);
  const Result<std::vector<Schedule>> read = parseSchedules(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value(), all);
  const size_t at = text.find("shares 0 1 ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_FALSE(parseSchedules(text.replace(at, 11, "shares 0 2 ")).ok());
}

TEST(Verifier, RefusesSharesThatDoNotFitTheSchedule) {
  Shape shape{3, 2};
  shape.shares = Shares(kParts[0]);
  std::vector<Schedule> all = buildAll("ho_shares", Collective::kAllReduce, shape);
  EXPECT_TRUE(verifyValues(all, InPlace::kNo).ok());
  all[1].shares = Shares(kParts[1]);
  EXPECT_FALSE(verifyValues(all, InPlace::kNo).ok()) << "they differ";
  for (Schedule& schedule : all) schedule.shares = Shares({Shares::kWhole / 2, Shares::kWhole / 2});
  EXPECT_FALSE(verifyValues(all, InPlace::kNo).ok()) << "three rows, two shares";
  std::vector<Schedule> gathering = buildAll("ho_direct", Collective::kAllGather, {3, 2});
  for (Schedule& schedule : gathering) schedule.shares = shape.shares;
  EXPECT_FALSE(verifyValues(gathering, InPlace::kNo).ok()) << "blocks have their sizes";
}

}  // namespace
}  // namespace horing
