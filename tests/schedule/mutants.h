#pragma once
// Single-fault mutants: one number, operand, step or block of one rank's schedule is wrong.
#include <functional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace horing {

struct Mutant {
  std::string fault;  // "position 1, lane 0, block 1, step 0: drops the wait"
  Schedule schedule;
};

// Every mutant of one rank's schedule, for at least two ranks.
std::vector<Mutant> mutantsOf(const Schedule& schedule);

}  // namespace horing
