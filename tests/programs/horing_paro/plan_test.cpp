// Which strategy is taken, for the paper's constants (arXiv 2310.06003) and at the edges.
#include "horing_paro/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace horing::paro {
namespace {

constexpr double kPaperMemory = 80e9;

Job paperJob(double parameters, double trainable) {
  return {{sizeof(horingParoModel_t), 4, 8, static_cast<uint64_t>(parameters),
           static_cast<uint64_t>(trainable), 10, 2, 12},
          0};
}

Plan paperPlan(double parameters, double trainable) {
  const Job job = paperJob(parameters, trainable);
  return planStrategies(job, flatRingCosts(job.grid(), Links{}), kPaperMemory).value();
}

const Forecast& forecastOf(const Plan& plan, const char* name) {
  return *std::find_if(plan.forecasts.begin(), plan.forecasts.end(),
                       [&](const Forecast& f) { return strategyName(f.strategy) == name; });
}

// The strategies that fit, fastest first, without those that keep parameters and gradients whole, which the paper leaves out.
std::vector<std::string> papersRanking(const Plan& plan) {
  std::vector<Forecast> left;
  for (const Forecast& f : plan.forecasts)
    if (f.fits && strategyName(f.strategy).rfind("NN", 0) != 0) left.push_back(f);
  std::stable_sort(left.begin(), left.end(), [](const Forecast& a, const Forecast& b) {
    return a.communication_seconds < b.communication_seconds * (1 - 1e-9);
  });
  std::vector<std::string> names;
  for (const Forecast& f : left) names.push_back(strategyName(f.strategy));
  return names;
}

std::set<std::string> firstOf(const std::vector<std::string>& names, size_t count) {
  return {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(Plan, SevenBillionAllTrainable) {
  const std::vector<std::string> ranking = papersRanking(paperPlan(7e9, 7e9));
  EXPECT_EQ(ranking[0], "NII");
  EXPECT_EQ(firstOf(ranking, 4), (std::set<std::string>{"NII", "INI", "III", "IIG"}));
}

TEST(Plan, SixtyFiveBillionAllTrainable) {
  const Plan plan = paperPlan(65e9, 65e9);
  std::set<std::string> fitting;
  for (const Forecast& f : plan.forecasts)
    if (f.fits) fitting.insert(strategyName(f.strategy));
  EXPECT_EQ(fitting, (std::set<std::string>{"IIG", "IGG", "GIG", "GGG"}));
  EXPECT_EQ(strategyName(plan.forecasts[static_cast<size_t>(plan.chosen)].strategy), "IIG");
}

TEST(Plan, SevenBillionWithASixteenthTrainable) {
  const std::vector<std::string> ranking = papersRanking(paperPlan(7e9, 7e9 / 16));
  EXPECT_EQ(firstOf(ranking, 2), (std::set<std::string>{"NIG", "NII"}));
}

TEST(Plan, SixtyFiveBillionWithASixteenthTrainable) {
  const Plan plan = paperPlan(65e9, 65e9 / 16);
  const std::vector<std::string> ranking = papersRanking(plan);
  EXPECT_EQ(ranking[0], "INI");  // which the authors did not build
  EXPECT_EQ(firstOf(ranking, 3), (std::set<std::string>{"INI", "III", "IIG"}));
  EXPECT_NEAR(forecastOf(plan, "IIG").communication_seconds / forecastOf(plan, "INI").communication_seconds,
              1, 0.03);
}

TEST(Plan, SixtyFiveBillionWithAThousandthTrainable) {
  const Plan plan = paperPlan(65e9, 65e6);
  const Forecast& best = plan.forecasts[static_cast<size_t>(plan.chosen)];
  EXPECT_LE(forecastOf(plan, "ING").communication_seconds, best.communication_seconds * 1.003);
}

TEST(Plan, ChoosesTheFastestThatFits) {
  const Job job = paperJob(7e9, 7e9);
  const CostTable costs = hoRingCosts(job.grid(), Links{});
  double previous = 0;
  for (double memory : {200e9, 100e9, 40e9, 30e9, 28e9, 10e9, 5e9, 4e9}) {
    const Plan plan = planStrategies(job, costs, memory).value();
    const Forecast& chosen = plan.forecasts[static_cast<size_t>(plan.chosen)];
    EXPECT_LE(chosen.memory(), memory);
    EXPECT_GE(chosen.step_seconds, previous);  // less memory is never faster
    previous = chosen.step_seconds;
    for (const Forecast& f : plan.forecasts)
      EXPECT_TRUE(!f.fits || f.step_seconds * 1.001 >= chosen.step_seconds) << strategyName(f.strategy);
  }
}

TEST(Plan, SaysByHowMuchNothingFits) {
  const Job job = paperJob(65e9, 65e9);
  const Plan plan = planStrategies(job, hoRingCosts(job.grid(), Links{}), 30e9).value();
  EXPECT_EQ(plan.chosen, -1);
  const Status none = checkThatOneFits(plan);
  EXPECT_EQ(none.code(), Code::kInvalidArgument);
  EXPECT_EQ(
      none.message().find("No strategy fits 30.0 GB per rank: GGG (ZeRO-3) needs least, 32.5 GB, which is "
                          "2.50 GB too much."),
      0u)
      << none.message();
  EXPECT_EQ(explainPlan(plan, job).size(), 1u);
}

TEST(Plan, TakesTheLeastCommunicationWhenComputationHidesItAll) {
  Job job = paperJob(7e9, 7e9);
  job.compute_seconds = 1000;
  const CostTable costs = hoRingCosts(job.grid(), Links{});
  const Plan plan = planStrategies(job, costs, kPaperMemory).value();
  job.compute_seconds = 0;
  const Plan without = planStrategies(job, costs, kPaperMemory).value();
  EXPECT_EQ(plan.chosen, without.chosen);
  EXPECT_EQ(plan.forecasts[0].step_seconds, 1000);
}

TEST(Plan, ExplainsItself) {
  const Job job = paperJob(65e9, 65e9);
  const Plan plan = planStrategies(job, flatRingCosts(job.grid(), Links{}), kPaperMemory).value();
  std::string text;
  for (const std::string& sentence : explainPlan(plan, job)) text += sentence + "\n";
  EXPECT_NE(text.find("Take IIG: parameters split inside each node, gradients split inside each node, "
                      "optimizer state split "
                      "over all ranks."),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Of the 4 strategies that fit 80.0 GB"), std::string::npos) << text;
  EXPECT_NE(text.find("micro-steps stay inside the nodes"), std::string::npos) << text;
  EXPECT_NE(text.find("IGG is next"), std::string::npos) << text;
  EXPECT_NE(text.find("more than there is"), std::string::npos) << text;
  EXPECT_NE(text.find("GGG (ZeRO-3) needs 32.5 GB"), std::string::npos) << text;
}

TEST(Plan, RefusesJobsThatAreNone) {
  const CostTable costs = hoRingCosts({2, 2}, Links{});
  const horingParoModel_t good = {sizeof(horingParoModel_t), 2, 2, 100, 50, 1, 2, 12, 0};
  EXPECT_TRUE(planStrategies({good, 0}, costs, 1e9).ok());
  const auto refused = [&](auto change) {
    horingParoModel_t model = good;
    double memory = 1e9;
    change(model, memory);
    const Result<Plan> plan = planStrategies({model, 0}, costs, memory);
    return !plan.ok() && plan.status().code() == Code::kInvalidArgument && !plan.status().message().empty();
  };
  EXPECT_TRUE(refused([](horingParoModel_t& model, double&) { model.params = model.trainable = 0; }));
  EXPECT_TRUE(refused([](horingParoModel_t& model, double&) { model.trainable = 101; }));
  EXPECT_TRUE(refused([](horingParoModel_t& model, double&) { model.microSteps = 0; }));
  EXPECT_TRUE(refused([](horingParoModel_t& model, double&) { model.groups = 0; }));
  EXPECT_TRUE(refused([](horingParoModel_t&, double& memory) { memory = 0; }));
}

TEST(Plan, MicroStepsAndWhatIsDoneOnceMakeTheStep) {
  Job job = paperJob(7e9, 7e9);
  const CostTable costs = hoRingCosts(job.grid(), Links{});
  job.model.microSteps = 1;
  const Plan one = planStrategies(job, costs, kPaperMemory).value();
  job.model.microSteps = 4;
  const Plan four = planStrategies(job, costs, kPaperMemory).value();
  for (size_t i = 0; i < one.forecasts.size(); ++i) {
    const MicroStepBytes bytes = microStepBytes(four.forecasts[i].estimate, job);
    const auto grown = [](uint64_t many, uint64_t few) { return static_cast<double>(many - few); };
    EXPECT_EQ(grown(four.forecasts[i].estimate.slowBytes, one.forecasts[i].estimate.slowBytes),
              3 * bytes.slow);
    EXPECT_EQ(grown(four.forecasts[i].estimate.fastBytes, one.forecasts[i].estimate.fastBytes),
              3 * bytes.fast);
  }
}

TEST(Plan, WritesQuantitiesWithThreeFigures) {
  EXPECT_EQ(bytesText(0), "0 B");
  EXPECT_EQ(bytesText(999), "999 B");
  EXPECT_EQ(bytesText(1234), "1.23 kB");
  EXPECT_EQ(bytesText(26.25e9), "26.2 GB");
  EXPECT_EQ(bytesText(999.6e6), "1.00 GB");
  EXPECT_EQ(secondsText(0), "0 s");
  EXPECT_EQ(secondsText(0.8015), "0.80 s");
  EXPECT_EQ(secondsText(0.0123), "12.3 ms");
  EXPECT_EQ(secondsText(4.2e-6), "4.20 us");
  EXPECT_EQ(secondsText(40.69), "40.7 s");
}

}  // namespace
}  // namespace horing::paro
