#pragma once
#include <string>
#include <vector>

#include "horing_paro/train/training.h"

namespace horing::paro {

// The loss over the optimizer steps as SVG that follows the reader's light or dark setting. Not empty.
std::string lossChart(const std::vector<TrainingStep>& steps, const std::string& title);

}  // namespace horing::paro
