#pragma once
// The schedules of all positions, for tests.
#include <gtest/gtest.h>

#include <vector>

#include "algorithms/catalogue.h"
#include "schedule/postcondition.h"

namespace horing {

inline std::vector<Schedule> buildAll(std::string_view algorithm, Collective collective, const Shape& shape,
                                      int32_t root = 0) {
  std::vector<Schedule> all;
  for (int32_t position = 0; position < shape.ranks(); ++position) {
    Result<Schedule> built = buildSchedule(algorithm, collective, shape, position, root);
    if (!built.ok()) {
      ADD_FAILURE() << built.status().toString();
      return {};
    }
    all.push_back(built.take());
  }
  return all;
}

inline constexpr Collective kEveryCollective[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast,
    Collective::kReduce,    Collective::kGather,        Collective::kScatter,   Collective::kAllToAll};
// The collectives in which every rank has the same part.
inline constexpr Collective kSymmetric[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                            Collective::kAllGather};

// Roots worth trying: the first position, one in the middle, the last.
inline std::vector<int32_t> rootsOf(Collective collective, int32_t ranks) {
  if (!hasRoot(collective) || ranks == 1) return {0};
  if (ranks == 2) return {0, 1};
  return {0, ranks / 2, ranks - 1};
}

}  // namespace horing
