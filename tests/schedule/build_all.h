#pragma once
// The schedules of all positions, for tests.
#include <gtest/gtest.h>

#include <vector>

#include "algorithms/catalogue.h"

namespace horing {

inline std::vector<Schedule> buildAll(std::string_view algorithm, Collective collective, Shape shape) {
  std::vector<Schedule> all;
  for (int32_t position = 0; position < shape.ranks(); ++position) {
    Result<Schedule> built = buildSchedule(algorithm, collective, shape, position);
    if (!built.ok()) {
      ADD_FAILURE() << built.status().toString();
      return {};
    }
    all.push_back(built.take());
  }
  return all;
}

inline constexpr Collective kEveryCollective[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                                  Collective::kAllGather};

}  // namespace horing
