#pragma once
// The lanes of a schedule one after the other in a single one: what small messages want, for which a lane that waits for another costs
// more than their overlap gains. Where a lane begins by sending what the step before it has kept, that step sends it: a step and a
// read less.
#include "schedule/schedule.h"

namespace horing {

// Of a schedule whose lanes move data, and wait for lanes before them only.
Schedule inOneLane(Schedule schedule);

}  // namespace horing
