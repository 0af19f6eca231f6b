#pragma once
// Human-readable simulated time.
#include <string>

#include "sim/machine_model.h"

namespace horing {

// "12.3 us", three significant digits.
std::string timeText(Picoseconds time);

}  // namespace horing
