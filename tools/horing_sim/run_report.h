#pragma once
// The output of `horing-sim run`.
#include <string>

#include "selection/prediction.h"

namespace horing {

// Time, bound, the simulated ranks, and the utilisation of lines; with records, the critical path.
Result<std::string> reportRun(const Prediction& prediction);

}  // namespace horing
