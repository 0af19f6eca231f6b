#pragma once
// A simulation as a picture: the sends of every lane of every drawn rank over time, and the critical path.
#include <string>

#include "selection/prediction.h"

namespace horing {

struct PictureOptions {
  int32_t ranks = 16;  // the number of ranks drawn, from the first on, as far as they fit on a screen
};

// For a prediction with records.
Result<std::string> drawRun(const Prediction& prediction, const PictureOptions& options);

}  // namespace horing
