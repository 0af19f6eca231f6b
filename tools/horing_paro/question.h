#pragma once
// The input of the planner, as a value.
#include <string>

#include "horing_paro/plan.h"

namespace horing::paro {

struct Question {
  Job job;
  double memory_bytes = 80e9;  // per rank
  CostTable costs;
  std::string costs_text;  // the source of the costs, for users
};

}  // namespace horing::paro
