#pragma once
// What a lane does, in words: for reports and pictures.
#include <cstdint>
#include <functional>
#include <string>

#include "schedule/schedule.h"

namespace horing {

// The group of a position: a node, or what the picture takes for one.
using GroupOf = std::function<int32_t(int32_t position)>;

// Whether a step of `position` sends to, signals or reads from another group.
bool leavesGroup(const Step& step, int32_t position, const GroupOf& group_of);

// "lane 1, reduce between groups". `lane` is one of the schedule.
std::string laneName(const Schedule& schedule, size_t lane, const GroupOf& group_of);

}  // namespace horing
