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
    std::vector<double> rates(3 + random() % 126);
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
