#pragma once
// What `horing-sim run` prints.
#include <string>

#include "selection/prediction.h"

namespace horing {

// Time, bound, what was simulated, and how busy the lines were; where records were kept, the critical path.
Result<std::string> reportRun(const Prediction& prediction);

}  // namespace horing
