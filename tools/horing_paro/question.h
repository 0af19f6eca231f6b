#pragma once
// What is asked of the planner, as a value.
#include <string>

#include "horing_paro/plan.h"

namespace horing::paro {

struct Question {
  Job job;
  double memory_bytes = 80e9;  // per rank
  CostTable costs;
  std::string costs_text;  // where the costs come from, for people
};

}  // namespace horing::paro
