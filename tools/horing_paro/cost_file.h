#pragma once
// Measured costs of collectives in a file of JSON, between `horing-paro measure` and `horing-paro plan --costs`:
// {"nodes": 4, "ranks": 4, "costs": [{"scope": "rail", "collective": "all_gather", "latency_seconds": .., "seconds_per_byte": ..}, ...]}
#include <string>

#include "horing_paro/cost.h"

namespace horing::paro {

struct MeasuredCosts {
  Grid grid;  // where they were measured
  CostTable costs;
  std::vector<int> sizes = {};  // of nodes, where these differ; in the file "ranks": [4, 3]
};

const char* scopeName(horingParoScope_t scope);
const char* collectiveName(horingParoCollective_t collective);

std::string formatCosts(const MeasuredCosts& measured);

// Errors: kInvalidArgument names a missing or wrong entry: all nine costs are required, none negative.
Result<MeasuredCosts> parseCosts(const std::string& text);

}  // namespace horing::paro
