#pragma once
// Human-readable simulated time and machines.
#include <string>

#include "sim/machine_model.h"

namespace horing {

// "12.3 us", three significant digits.
std::string timeText(Picoseconds time);
// "4 x 2 ranks", or "2+2+1 ranks" where nodes differ, "20 nodes, 61 ranks" where they are many.
std::string shapeText(const MachineModel& machine);

}  // namespace horing
