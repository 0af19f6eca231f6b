#pragma once
// From groups of one size to groups of different sizes. See spread.cpp.
#include "schedule/rails.h"
#include "schedule/schedule.h"

namespace horing {

// The schedule of the rank at `position`. `even` is the rank's schedule if all groups were as large as its own; of two levels, groups and
// members, without a root.
Schedule spreadOverRails(const Schedule& even, const Rails& rails, int32_t position);

}  // namespace horing
