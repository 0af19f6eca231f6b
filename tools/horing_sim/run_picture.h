#pragma once
// A simulation as a picture: what every lane of every drawn rank sends when, and the critical path through it.
#include <string>

#include "selection/prediction.h"

namespace horing {

struct PictureOptions {
  int32_t ranks = 16;  // the first so many are drawn
};

// Of a prediction with records.
Result<std::string> drawRun(const Prediction& prediction, const PictureOptions& options);

}  // namespace horing
