#pragma once
// A collective as GOAL text, the input of LogGOPSim (Hoefler, Schneider and Lumsdaine, 2010), so that another simulator can
// check this one. GOAL has no slots and no shared NICs: compare with slots enough and a NIC for each rank.
#include <string>

#include "selection/prediction.h"

namespace horing {

inline constexpr int64_t kMaxGoalSlices = 5'000'000;

// All ranks, slice by slice: what a slice receives, its computation (with the machine's cost, in nanoseconds), what it sends.
// Errors: a question that was not asked of all ranks; more than kMaxGoalSlices slices; scratch that is read before it is written.
Result<std::string> goalText(const Prediction& prediction);

}  // namespace horing
