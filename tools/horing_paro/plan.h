#pragma once
// Chooses the fastest strategy whose state fits in memory.
#include <string>
#include <vector>

#include "common/quantity.h"
#include "horing_paro/cost.h"

namespace horing::paro {

// The bytes of each rank of unequal nodes are computed by themselves.
inline constexpr int kMaxRanksOfUnequalNodes = 512;

// A training job, as far as its cost is concerned.
struct Job {
  horingParoModel_t model = HORING_PARO_MODEL_INITIALIZER;
  double compute_seconds = 0;  // of one optimizer step; communication hides behind it at best
  // Of nodes of different sizes, the ranks of each, in place of model.ranksPerGroup; at most kMaxRanksOfUnequalNodes together.
  std::vector<int> sizes = {};

  Grid grid() const { return sizes.empty() ? Grid{model.groups, model.ranksPerGroup} : gridOf(sizes); }
};

struct Forecast {
  horingParoStrategy_t strategy = horingParoNNN;
  horingParoEstimate_t estimate =
      {};  // of a rank: the most memory, and the bytes of one that sends the most inside its node
  double node_slow_bytes = 0;        // that leave a node in an optimizer step: the most of any node
  double node_micro_step_bytes = 0;  // ... in a micro-step
  double communication_seconds = 0;  // per optimizer step
  double step_seconds = 0;           // max(communication, computation): the best that overlap can do
  bool fits = false;

  double memory() const { return static_cast<double>(estimate.memoryBytes); }
};

struct Plan {
  double memory_bytes = 0;          // the limit per rank
  std::vector<Forecast> forecasts;  // by number of strategy
  int chosen = -1;                  // index into forecasts; -1: none fits
};

// A forecast for every strategy, and the choice: among the strategies that fit, the smallest step time; among equal ones (within 0.1 %) the
// one with
// the least communication, then the least memory, then the first. Errors: kInvalidArgument for a job without parameters, a limit that is
// not positive, and what horingParoGetEstimate refuses.
Result<Plan> planStrategies(const Job& job, const CostTable& costs, double memory_bytes);

// kInvalidArgument if no strategy fits; names the strategy that needs the least memory, and by how much it exceeds the limit.
Status checkThatOneFits(const Plan& plan);

// "IIG", and its common name: "ZeRO-3", or nothing. `strategy` is one of the 14.
std::string strategyName(horingParoStrategy_t strategy);
std::string familiarName(horingParoStrategy_t strategy);

// Bytes that a rank sends in each micro-step.
struct MicroStepBytes {
  double slow = 0;
  double fast = 0;
};
MicroStepBytes microStepBytes(const horingParoEstimate_t& estimate, const Job& job);

// Sentences for users: the choice and its reasons, the alternatives, the strategies that do not fit.
std::vector<std::string> explainPlan(const Plan& plan, const Job& job);

}  // namespace horing::paro
