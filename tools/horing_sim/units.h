#pragma once
// The simulator's time as people read it.
#include <string>

#include "sim/machine_model.h"

namespace horing {

// "12.3 us", three digits that count.
std::string timeText(Picoseconds time);

}  // namespace horing
