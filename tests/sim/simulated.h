#pragma once
// Simulations of the catalogue's algorithms, for tests.
#include <gtest/gtest.h>

#include <vector>

#include "../schedule/build_all.h"
#include "sim/simulation.h"

namespace horing {

struct Simulated {
  const char* algorithm = "ring";
  Collective collective = Collective::kAllGather;
  Shape shape;
  uint64_t bytes = 0;  // of the whole vector
  MachineModel machine;
  Pipelining pipelining;
  Record record = Record::kNothing;
};

inline SimulationInput inputOf(const Simulated& wanted, const std::vector<Schedule>& schedules) {
  SimulationInput input;
  input.machine = wanted.machine;
  input.machine.nodes = wanted.shape.groups;
  input.machine.ranks_per_node = wanted.shape.members;
  input.machine.rails = wanted.shape.rails;
  input.folding =
      Folding(Folding::Kind::kNone, wanted.shape.groups, wanted.shape.members, wanted.shape.rails);
  input.schedules = schedules;
  input.count = elementsOf(wanted.collective, wanted.shape.ranks(), wanted.bytes, input.element_bytes);
  input.pipelining = wanted.pipelining;
  input.record = wanted.record;
  return input;
}

inline Result<SimulationResult> trySimulation(const Simulated& wanted) {
  const std::vector<Schedule> schedules = buildAll(wanted.algorithm, wanted.collective, wanted.shape);
  return simulate(inputOf(wanted, schedules));
}

inline SimulationResult simulated(const Simulated& wanted) {
  Result<SimulationResult> result = trySimulation(wanted);
  EXPECT_TRUE(result.ok()) << result.status().toString();
  return result.ok() ? result.take() : SimulationResult();
}

// One slice for each chunk, and messages that wait for nothing but each other.
inline Pipelining unsliced() {
  Pipelining plan;
  plan.window = 1;
  plan.slices_per_chunk = 1;
  plan.slots_inside = plan.slots_between = 2;
  return plan;
}

}  // namespace horing
