// The planner's parts: quantities, files of costs, the paper's guideline, the picture.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/quantity.h"
#include "horing_paro/cost_file.h"
#include "horing_paro/guideline.h"
#include "horing_paro/plan_chart.h"
#include "horing_paro/plan_report.h"

namespace horing::paro {
namespace {

TEST(Quantity, IsReadAsPeopleWriteIt) {
  EXPECT_DOUBLE_EQ(parseCount("7e9").value(), 7e9);
  EXPECT_DOUBLE_EQ(parseCount("65B").value(), 65e9);
  EXPECT_EQ(parseBytes("80GiB").value(), uint64_t{80} << 30);
  EXPECT_EQ(parseBytes("80GB").value(), 80'000'000'000u);
  EXPECT_EQ(parseBytes("1.5K").value(), 1536u);
  EXPECT_DOUBLE_EQ(parseRate("100Mbit/s").value(), 1e8);
  EXPECT_DOUBLE_EQ(parseSeconds("20us").value(), 20e-6);
  EXPECT_DOUBLE_EQ(parseSeconds("0").value(), 0);
  EXPECT_DOUBLE_EQ(parseSeconds("10m").value(), 600);
}

TEST(Quantity, RefusesWhatIsNone) {
  for (const char* text : {"", "B", "seven", "7e9x", "-1", "nan", "inf", "1e999"}) {
    EXPECT_FALSE(parseCount(text).ok()) << text;
    EXPECT_FALSE(parseBytes(text).ok()) << text;
    EXPECT_FALSE(parseSeconds(text).ok()) << text;
  }
  EXPECT_FALSE(parseRate("0Gbit").ok());
  EXPECT_FALSE(parseBytes("80Gbit").ok());
  EXPECT_FALSE(parseBytes("1e30").ok());
}

MeasuredCosts someCosts() {
  MeasuredCosts measured{.grid = {4, 2}, .costs = {}};
  double value = 1e-9;
  for (auto& scope : measured.costs.of)
    for (CollectiveCost& cost : scope) cost = {value, value *= 1.7};
  return measured;
}

TEST(CostFile, IsReadAsItWasWritten) {
  const MeasuredCosts written = someCosts();
  const Result<MeasuredCosts> read = parseCosts(formatCosts(written));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().grid, written.grid);
  for (horingParoScope_t scope : kScopes)
    for (horingParoCollective_t collective : kCollectives) {
      const CollectiveCost& a = read.value().costs.at(scope, collective);
      const CollectiveCost& b = written.costs.at(scope, collective);
      EXPECT_DOUBLE_EQ(a.latency_seconds, b.latency_seconds);
      EXPECT_DOUBLE_EQ(a.seconds_per_byte, b.seconds_per_byte);
    }
}

TEST(CostFile, HasTheSizesOfNodesThatDiffer) {
  MeasuredCosts written = someCosts();
  written.sizes = {4, 3, 1};
  written.grid = gridOf(written.sizes);
  EXPECT_EQ(written.grid, (Grid{3, 1, 4, 8}));
  const std::string text = formatCosts(written);
  const Result<MeasuredCosts> read = parseCosts(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().grid, written.grid);
  EXPECT_EQ(read.value().sizes, written.sizes);
  for (const char* wrong : {"0", "\"4\"", "4, 4", "[4]"}) {
    std::string other = text;
    other.replace(other.find('4', other.find("\"ranks\"")), 1, wrong);
    EXPECT_FALSE(parseCosts(other).ok()) << other;
  }
}

TEST(CostFile, SaysWhatIsWrong) {
  const std::string good = formatCosts(someCosts());
  const auto complaint = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const Result<MeasuredCosts> read = parseCosts(text);
    EXPECT_FALSE(read.ok()) << from << " -> " << to;
    return read.ok() ? std::string() : read.status().message();
  };
  EXPECT_NE(complaint("\"rail\"", "\"tram\"").find("scope rail are missing"), std::string::npos);
  EXPECT_NE(complaint("\"nodes\": 4", "\"nodes\": 0").find("\"nodes\" has to be"), std::string::npos);
  EXPECT_NE(complaint("\"latency_seconds\": ", "\"latency_seconds\": -").find("latency_seconds"),
            std::string::npos);
  EXPECT_NE(complaint("\"seconds_per_byte\"", "\"seconds\"").find("seconds_per_byte"), std::string::npos);
  for (const char* text : {"", "{", "[]", "{\"costs\": 3}", "{\"costs\": [], \"nodes\": \"4\"}", "null"})
    EXPECT_FALSE(parseCosts(text).ok()) << text;
}

// The paper's recommendations are what its formulas say, among the strategies that its authors built.
TEST(Guideline, RecommendsTheFastestThatFit) {
  const std::set<std::string> not_built = {"NNN", "NNI", "NNG", "INI"};
  for (const GuidelineCase& one : guidelineCases()) {
    const Plan plan = planStrategies(one.job, flatRingCosts(kPaperGrid, Links{}), kPaperMemoryBytes).value();
    double slowest_recommended = 0, fastest_other = 1e9;
    const auto is = [&](const std::string& name) {
      return std::any_of(one.recommended.begin(), one.recommended.end(),
                         [&](auto r) { return r && name == r; });
    };
    for (const Forecast& f : plan.forecasts) {
      const std::string name = strategyName(f.strategy);
      if (is(name)) {
        EXPECT_TRUE(f.fits) << one.title << " " << name;
        slowest_recommended = std::max(slowest_recommended, f.communication_seconds);
      } else if (f.fits && !not_built.count(name)) {
        fastest_other = std::min(fastest_other, f.communication_seconds);
      }
    }
    EXPECT_LE(slowest_recommended, fastest_other * 1.003)
        << one.title;  // 0.3 %: ING where hardly anything is trained
  }
}

Question paperQuestion(double parameters, double memory_bytes) {
  Question question;
  const auto count = static_cast<uint64_t>(parameters);
  question.job.model = {
      sizeof(horingParoModel_t), kPaperGrid.groups, kPaperGrid.members, count, count, 10, 2, 12, 0};
  question.memory_bytes = memory_bytes;
  question.costs = hoRingCosts(kPaperGrid, Links{});
  question.costs_text = "<HO-Ring>";
  return question;
}

Plan planOf(const Question& question) {
  return planStrategies(question.job, question.costs, question.memory_bytes).value();
}

TEST(PlanChart, LabelsOverlapNeitherEachOtherNorASpot) {
  const Box area{0, 0, 700, 400};
  for (int crowd : {1, 7, 30}) {
    std::vector<Spot> spots;
    for (int i = 0; i < crowd; ++i) spots.push_back({300 + 5.0 * (i % 6), 200 + 4.0 * (i / 6), 60});
    const std::vector<Box> boxes = placeLabels(spots, area);
    ASSERT_EQ(boxes.size(), spots.size());
    for (size_t i = 0; i < boxes.size(); ++i) {
      EXPECT_TRUE(boxes[i].x >= 0 && boxes[i].x + boxes[i].width <= 700 && boxes[i].y >= 0 &&
                  boxes[i].y <= 385);
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(overlap(boxes[i], boxes[j])) << crowd << ": " << i << " " << j;
      for (const Spot& spot : spots)
        EXPECT_FALSE(overlap(boxes[i],
                             {spot.x - kSpotRadius, spot.y - kSpotRadius, 2 * kSpotRadius, 2 * kSpotRadius}));
    }
  }
}

TEST(PlanChart, ShowsEveryStrategyTheLimitAndTheChoice) {
  const Question question = paperQuestion(7e9, 20e9);
  const std::string picture = planChart(question, planOf(question));
  for (const Forecast& forecast : planOf(question).forecasts)
    EXPECT_NE(picture.find(">" + strategyName(forecast.strategy)), std::string::npos)
        << strategyName(forecast.strategy);
  EXPECT_NE(picture.find(">Take NIG: "), std::string::npos);
  EXPECT_NE(picture.find("20.0 GB per rank"), std::string::npos);
  EXPECT_EQ(picture.find("<HO-Ring>"), std::string::npos);  // escaped
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_EQ(picture.find("inf"), std::string::npos);
}

TEST(PlanChart, CanShowWhereNothingTakesTimeOrFits) {
  Question question = paperQuestion(7e9, 1e9);
  const std::string none = planChart(question, planOf(question));
  EXPECT_NE(none.find("No strategy fits"), std::string::npos);
  question.job.model.groups = question.job.model.ranksPerGroup = 1;
  question.costs = hoRingCosts({1, 1}, Links{});
  const std::string alone = planChart(question, planOf(question));
  EXPECT_EQ(alone.find("nan"), std::string::npos) << alone;
  EXPECT_EQ(alone.find("inf"), std::string::npos) << alone;
}

TEST(PlanReport, HasARowForEachStrategyAndOneChoice) {
  const Question question = paperQuestion(7e9, 80e9);
  const std::string text = planText(question, planOf(question));
  for (const Forecast& forecast : planOf(question).forecasts)
    EXPECT_NE(text.find("\n" + strategyName(forecast.strategy) + " "), std::string::npos) << text;
  EXPECT_NE(text.find("7B parameters, all of them trained; 4 nodes of 8 ranks; 10 micro-steps"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("<- take"), text.rfind("<- take"));
  EXPECT_NE(text.find("too large"), std::string::npos);
}

// Where nothing is trained, whole parameters need no communication: nothing is so many times nothing.
TEST(PlanReport, ComparesNoTimeWithNone) {
  Question question = paperQuestion(7e9, 80e9);
  question.job.model.trainable = 0;
  const Plan plan = planOf(question);
  const std::string text = planText(question, plan);
  EXPECT_NE(text.find("takes " + secondsText(plan.forecasts.back().step_seconds) + ".\n"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace horing::paro
