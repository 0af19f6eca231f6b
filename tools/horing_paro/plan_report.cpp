#include "horing_paro/plan_report.h"

#include <nlohmann/json.hpp>

namespace horing::paro {

namespace {

using nlohmann::json;

// "7B", "437.5M", "65".
std::string countText(double count) {
  const char* units[] = {"", "k", "M", "B", "T"};
  size_t unit = 0;
  while (count >= 1000 && unit + 1 < std::size(units)) count /= 1000, ++unit;
  return formatString("%.4g%s", count, units[unit]);
}

std::string plural(int32_t count, const char* word) {
  return formatString("%d %s%s", count, word, count == 1 ? "" : "s");
}

std::string row(const Question& question, const Plan& plan, size_t index) {
  const Forecast& forecast = plan.forecasts[index];
  const MicroStepBytes micro_step = microStepBytes(forecast.estimate, question.job);
  const char* mark = static_cast<int>(index) == plan.chosen ? "<- take" : forecast.fits ? "" : "too large";
  std::string text = formatString(
      "%-4s%-8s%10s%12s%12s%12s%12s%11s  %s", strategyName(forecast.strategy).c_str(),
      familiarName(forecast.strategy).c_str(), bytesText(forecast.memory()).c_str(),
      bytesText(forecast.node_micro_step_bytes).c_str(), bytesText(forecast.node_slow_bytes).c_str(),
      bytesText(micro_step.fast).c_str(), bytesText(static_cast<double>(forecast.estimate.fastBytes)).c_str(),
      secondsText(forecast.communication_seconds).c_str(), mark);
  while (text.back() == ' ') text.pop_back();
  return text + "\n";
}

json strategyJson(const Forecast& forecast, const Job& job) {
  const MicroStepBytes micro_step = microStepBytes(forecast.estimate, job);
  const double slow = static_cast<double>(forecast.estimate.slowBytes);
  return {{"name", strategyName(forecast.strategy)},
          {"familiar_name", familiarName(forecast.strategy)},
          {"memory_bytes", forecast.estimate.memoryBytes},
          {"traffic_bytes",
           {{"slow_per_rank_and_step", slow},
            {"slow_per_node_and_step", forecast.node_slow_bytes},
            {"slow_per_node_and_micro_step", forecast.node_micro_step_bytes},
            {"fast_per_rank_and_step", forecast.estimate.fastBytes},
            {"fast_per_rank_and_micro_step", micro_step.fast}}},
          {"communication_seconds", forecast.communication_seconds},
          {"step_seconds", forecast.step_seconds},
          {"fits", forecast.fits}};
}

}  // namespace

std::string jobText(const Question& question) {
  const Job& job = question.job;
  const std::string trained =
      job.model.trainable == job.model.params ? "all" : countText(static_cast<double>(job.model.trainable));
  return countText(static_cast<double>(job.model.params)) + " parameters, " + trained + " of them trained; " +
         nodesText(job.grid(), job.sizes) + "; " + plural(job.model.microSteps, "micro-step") +
         " in an optimizer step; " + bytesText(question.memory_bytes) + " per rank";
}

std::string planText(const Question& question, const Plan& plan) {
  std::string text = jobText(question) + "\nCosts: " + question.costs_text + "\n";
  text += formatString("\n%-12s%10s%24s%24s%11s\n", "", "memory", "slow bytes of a node",
                       "fast bytes of a rank", "time");
  text += formatString("%-12s%10s%12s%12s%12s%12s%11s\n", "", "per rank", "micro-step", "step", "micro-step",
                       "step", "of a step");
  for (size_t i = 0; i < plan.forecasts.size(); ++i) text += row(question, plan, i);
  text += "\n";
  for (const std::string& sentence : explainPlan(plan, question.job)) text += sentence + "\n";
  return text;
}

std::string planJson(const Question& question, const Plan& plan) {
  const Job& job = question.job;
  json document;
  document["question"] = {{"parameters", job.model.params},
                          {"trainable", job.model.trainable},
                          {"nodes", job.model.groups},
                          {"ranks", job.sizes.empty() ? json(job.model.ranksPerGroup) : json(job.sizes)},
                          {"micro_steps", job.model.microSteps},
                          {"memory_bytes", question.memory_bytes},
                          {"compute_seconds", job.compute_seconds},
                          {"costs", question.costs_text}};
  document["strategies"] = json::array();
  for (const Forecast& forecast : plan.forecasts)
    document["strategies"].push_back(strategyJson(forecast, job));
  document["chosen"] = plan.chosen < 0
                           ? json()
                           : json(strategyName(plan.forecasts[static_cast<size_t>(plan.chosen)].strategy));
  document["why"] = explainPlan(plan, job);
  return document.dump(1) + "\n";
}

}  // namespace horing::paro
