#pragma once
// From groups of one size to groups of different sizes. See spread.cpp.
#include "schedule/rails.h"
#include "schedule/schedule.h"

namespace horing {

// The schedule of the rank at `position` of those groups. `even` is its schedule if all groups were as large as its own one, with its
// place in that; of two levels, groups and members, without a root.
Schedule spreadOverRails(const Schedule& even, const Rails& rails, int32_t position);

}  // namespace horing
