#pragma once
// Joins the lanes of a schedule into one, in sequence. For small messages, where waits between lanes cost more than the overlap gains. If a
// lane begins by sending the value that the previous step has kept, that step sends it: one step and one read less.
#include "schedule/schedule.h"

namespace horing {

// The lanes must move data, and wait for earlier lanes only.
Schedule inOneLane(Schedule schedule);

}  // namespace horing
