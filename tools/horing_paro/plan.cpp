#include "horing_paro/plan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace horing::paro {

namespace {

constexpr double kSame = 1.001;  // times closer than this are one time: the formulas are no better than that

const horingParoStrategyInfo_t& rowOf(horingParoStrategy_t strategy) {
  const horingParoStrategyInfo_t* row = nullptr;
  HORING_CHECK(horingParoGetStrategy(strategy, &row) == horingSuccess);
  return *row;
}

// Whether `a` is to be taken rather than `b`, which comes earlier.
bool isBetter(const Forecast& a, const Forecast& b) {
  if (a.step_seconds * kSame < b.step_seconds) return true;
  if (b.step_seconds * kSame < a.step_seconds) return false;
  if (a.communication_seconds * kSame < b.communication_seconds) return true;
  if (b.communication_seconds * kSame < a.communication_seconds) return false;
  return a.memory() < b.memory();
}

// Index of the best among those for which `allowed` holds; -1 when there is none.
template <typename Allowed>
int bestOf(const Plan& plan, Allowed allowed) {
  int best = -1;
  for (size_t i = 0; i < plan.forecasts.size(); ++i)
    if (allowed(plan.forecasts[i]) &&
        (best < 0 || isBetter(plan.forecasts[i], plan.forecasts[static_cast<size_t>(best)])))
      best = static_cast<int>(i);
  return best;
}

std::string nameText(horingParoStrategy_t strategy) {
  const std::string familiar = familiarName(strategy);
  return strategyName(strategy) + (familiar.empty() ? "" : " (" + familiar + ")");
}

const char* partitionText(horingParoPartition_t partition) {
  const char* texts[] = {"whole on every rank", "split inside each node", "split over all ranks"};
  return texts[partition];
}

const Forecast& leastMemory(const Plan& plan) {
  return *std::min_element(plan.forecasts.begin(), plan.forecasts.end(),
                           [](const Forecast& a, const Forecast& b) { return a.memory() < b.memory(); });
}

std::string noneFits(const Plan& plan) {
  const Forecast& least = leastMemory(plan);
  return "No strategy fits " + bytesText(plan.memory_bytes) + " per rank: " + nameText(least.strategy) +
         " needs least, " + bytesText(least.memory()) + ", which is " +
         bytesText(least.memory() - plan.memory_bytes) +
         " too much. More ranks, more memory or fewer trainable parameters are needed.";
}

// The factor by which `slower` takes longer: ", 1.6 times the time"; empty if they are equal.
std::string ratioText(double slower, double faster) {
  return faster > 0 ? formatString(", %.3g times the time", slower / faster) : "";
}

std::string againstNext(const Plan& plan, const Forecast& chosen) {
  const int next = bestOf(plan, [&](const Forecast& f) { return f.fits && f.strategy != chosen.strategy; });
  if (next < 0) return "It is the only one that fits.";
  const Forecast& other = plan.forecasts[static_cast<size_t>(next)];
  const std::string compared = nameText(other.strategy) + " is next: ";
  if (other.step_seconds <= chosen.step_seconds * kSame)
    return compared +
           (other.communication_seconds <= chosen.communication_seconds * kSame
                ? "the same time with " + bytesText(other.memory()) + "."
                : "the same time, but it communicates for " + secondsText(other.communication_seconds) + ".");
  return compared + secondsText(other.step_seconds) + " with " + bytesText(other.memory()) +
         ratioText(other.step_seconds, chosen.step_seconds) + ".";
}

std::string slowBytesText(const Forecast& chosen, const Job& job) {
  if (job.model.groups == 1) return "There is one node, so nothing crosses a slow link.";
  const std::string carried = bytesText(chosen.node_slow_bytes) + " leave " +
                              (job.sizes.empty() ? "each node" : "the node that sends the most") +
                              " in an optimizer step";
  return chosen.node_micro_step_bytes > 0
             ? carried + ", more with every micro-step."
             : carried + ", however many micro-steps it has: micro-steps stay inside the nodes.";
}

// The fastest of all, when it does not fit.
void addFastest(const Plan& plan, const Forecast& chosen, std::vector<std::string>& sentences) {
  const int fastest = bestOf(plan, [](const Forecast&) { return true; });
  const Forecast& best = plan.forecasts[static_cast<size_t>(fastest)];
  if (best.fits || best.step_seconds * kSame >= chosen.step_seconds) return;
  sentences.push_back(nameText(best.strategy) + " would take " + secondsText(best.step_seconds) +
                      ", but needs " + bytesText(best.memory()) + ", " +
                      bytesText(best.memory() - plan.memory_bytes) + " more than there is.");
}

Result<horingParoEstimate_t> estimateOf(horingParoStrategy_t strategy, const horingParoModel_t& model) {
  horingParoEstimate_t estimate = HORING_PARO_ESTIMATE_INITIALIZER;
  if (horingParoGetEstimate(strategy, &model, &estimate) != horingSuccess)
    return Status(Code::kInvalidArgument, horingParoGetLastError());
  return estimate;
}

// Memory and bytes.
Result<Forecast> forecastOf(horingParoStrategy_t strategy, const Job& job) {
  Forecast forecast;
  forecast.strategy = strategy;
  if (job.sizes.empty()) {
    HORING_ASSIGN(forecast.estimate, estimateOf(strategy, job.model));
    const double members = job.model.ranksPerGroup;
    forecast.node_slow_bytes = members * static_cast<double>(forecast.estimate.slowBytes);
    forecast.node_micro_step_bytes = members * microStepBytes(forecast.estimate, job).slow;
    return forecast;
  }
  horingParoModel_t model = job.model;
  model.groupSizes = job.sizes.data();
  for (model.group = 0; model.group < std::ssize(job.sizes); ++model.group) {
    double slow = 0, in_micro_step = 0;  // of the node
    for (model.localIndex = 0; model.localIndex < job.sizes[static_cast<size_t>(model.group)];
         ++model.localIndex) {
      HORING_ASSIGN(const horingParoEstimate_t estimate, estimateOf(strategy, model));
      slow += static_cast<double>(estimate.slowBytes);
      in_micro_step += microStepBytes(estimate, job).slow;
      if (estimate.fastBytes >= forecast.estimate.fastBytes) forecast.estimate = estimate;
    }
    forecast.node_slow_bytes = std::max(forecast.node_slow_bytes, slow);
    forecast.node_micro_step_bytes = std::max(forecast.node_micro_step_bytes, in_micro_step);
  }
  forecast.estimate.memoryBytes = forecast.estimate.largestMemoryBytes;
  return forecast;
}

// Compares with ZeRO-3, the usual choice.
void addFullySharded(const Plan& plan, const Forecast& chosen, std::vector<std::string>& sentences) {
  const Forecast& full = plan.forecasts.back();
  if (full.step_seconds <= chosen.step_seconds * kSame) return;
  sentences.push_back(nameText(full.strategy) + " needs " + bytesText(full.memory()) + " and takes " +
                      secondsText(full.step_seconds) + ratioText(full.step_seconds, chosen.step_seconds) +
                      ".");
}

}  // namespace

std::string strategyName(horingParoStrategy_t strategy) {
  return rowOf(strategy).name;
}

std::string familiarName(horingParoStrategy_t strategy) {
  return rowOf(strategy).alias;
}

MicroStepBytes microStepBytes(const horingParoEstimate_t& estimate, const Job& job) {
  MicroStepBytes bytes;
  for (int i = 0; i < estimate.numOperations; ++i) {
    const horingParoOperation_t& operation = estimate.operations[i];
    if (operation.phase != horingParoPhaseGather && operation.phase != horingParoPhaseReduce) continue;
    const double times = static_cast<double>(operation.times) / job.model.microSteps;
    bytes.slow += times * static_cast<double>(operation.slowBytes);
    bytes.fast += times * static_cast<double>(operation.fastBytes);
  }
  return bytes;
}

Result<Plan> planStrategies(const Job& job, const CostTable& costs, double memory_bytes) {
  if (job.model.params == 0) return makeStatus(Code::kInvalidArgument, "a model has at least one parameter");
  if (!(memory_bytes > 0))
    return makeStatus(Code::kInvalidArgument, "the memory per rank has to be more than nothing");
  Plan plan;
  plan.memory_bytes = memory_bytes;
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    HORING_ASSIGN(Forecast forecast, forecastOf(static_cast<horingParoStrategy_t>(number), job));
    forecast.communication_seconds = communicationSeconds(forecast.estimate, costs);
    forecast.step_seconds = std::max(forecast.communication_seconds, job.compute_seconds);
    forecast.fits = forecast.memory() <= memory_bytes;
    plan.forecasts.push_back(forecast);
  }
  plan.chosen = bestOf(plan, [](const Forecast& forecast) { return forecast.fits; });
  return plan;
}

Status checkThatOneFits(const Plan& plan) {
  return plan.chosen >= 0 ? Status() : Status(Code::kInvalidArgument, noneFits(plan));
}

std::vector<std::string> explainPlan(const Plan& plan, const Job& job) {
  if (plan.chosen < 0) return {noneFits(plan)};
  const Forecast& chosen = plan.forecasts[static_cast<size_t>(plan.chosen)];
  const auto fitting =
      std::count_if(plan.forecasts.begin(), plan.forecasts.end(), [](const Forecast& f) { return f.fits; });
  std::vector<std::string> sentences;
  sentences.push_back("Take " + nameText(chosen.strategy) + ": parameters " +
                      partitionText(rowOf(chosen.strategy).params) + ", gradients " +
                      partitionText(rowOf(chosen.strategy).grads) + ", optimizer state " +
                      partitionText(rowOf(chosen.strategy).state) + ".");
  sentences.push_back(
      formatString("Of the %d strategies that fit %s per rank it is the fastest: %s of communication in an "
                   "optimizer step, with %s of model state per rank.",
                   static_cast<int>(fitting), bytesText(plan.memory_bytes).c_str(),
                   secondsText(chosen.communication_seconds).c_str(), bytesText(chosen.memory()).c_str()));
  if (job.compute_seconds > chosen.communication_seconds)
    sentences.push_back("Computation takes " + secondsText(job.compute_seconds) +
                        ", so communication can hide behind it.");
  sentences.push_back(slowBytesText(chosen, job));
  sentences.push_back(againstNext(plan, chosen));
  addFastest(plan, chosen, sentences);
  addFullySharded(plan, chosen, sentences);
  return sentences;
}

}  // namespace horing::paro
