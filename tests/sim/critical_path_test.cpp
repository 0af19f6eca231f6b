#include "sim/critical_path.h"

#include <gtest/gtest.h>

#include "simulated.h"

namespace horing {
namespace {

struct Path {
  SimulationResult result;
  std::vector<PathSegment> segments;
};

Path pathOf(Simulated call) {
  call.record = Record::kEverything;
  const std::vector<Schedule> schedules = buildAll(call.algorithm, call.collective, call.shape);
  const SimulationInput input = inputOf(call, schedules);
  const Result<FoldedNetwork> network = FoldedNetwork::build(schedules, input.folding);
  Path path;
  path.result = simulated(call);
  EXPECT_TRUE(network.ok());
  path.segments = criticalPath(path.result, network.value());
  return path;
}

Picoseconds share(const std::vector<PathSegment>& segments, const std::string& name) {
  for (const PathShare& part : pathShares(segments))
    if (part.name == name) return part.time;
  return 0;
}

// Whatever the machine, the chain has no gaps and takes the whole time.
TEST(CriticalPath, TakesTheWholeTime) {
  MachineModel machine;
  machine.nic = Owner::kNode;
  machine.between = {5, 1, 0.2, 3};
  machine.inside = {1, 8, 0.1, 0};
  machine.cores = 2;
  machine.step_us = 0.3;
  machine.fold_gbytes_per_s = 4;
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (const Collective collective : kEveryCollective) {
      if (!algorithm.has(collective)) continue;
      const Path path = pathOf({algorithm.name, collective, {3, 3}, 3'000'000, machine, {}});
      SCOPED_TRACE(std::string(algorithm.name) + " " + collectiveName(collective));
      ASSERT_FALSE(path.segments.empty());
      EXPECT_EQ(path.segments.front().begin, 0);
      EXPECT_EQ(path.segments.back().end, path.result.time);
      for (size_t i = 1; i < path.segments.size(); ++i)
        EXPECT_EQ(path.segments[i].begin, path.segments[i - 1].end) << i;
    }
}

// M - 1 hops between nodes, and one row inside the last.
TEST(CriticalPath, OfHoRingPassesTheRailAndOneRow) {
  MachineModel machine;
  machine.between = {5, 12.5, 0, 0};
  machine.inside = {2, 200, 0, 0};
  const Path path = pathOf({"ho_ring", Collective::kAllGather, {4, 4}, 16 * 65536, machine, unsliced()});
  EXPECT_EQ(share(path.segments, "lines between nodes"), 3 * 65536 * 80);
  EXPECT_EQ(share(path.segments, "latency between nodes"), 3 * 5'000'000);
  EXPECT_EQ(share(path.segments, "lines inside a node"), 3 * 65536 * 5);
  EXPECT_EQ(share(path.segments, "latency inside a node"), 3 * 2'000'000);
  EXPECT_EQ(pathShares(path.segments)[0].name, "lines between nodes");
}

TEST(CriticalPath, NamesTheCreditsThatALineWaitsFor) {
  MachineModel machine;
  machine.between = {50, 10, 0, 0};
  Simulated call{"ring", Collective::kAllGather, {3, 1}, 3 * 64 * 10'000, machine, {}};
  call.pipelining.slices_per_chunk = 64;
  call.pipelining.slots_between = 5;
  EXPECT_GT(share(pathOf(call).segments, "waiting for free slots"), 0);
  call.pipelining.slots_between = 200;
  EXPECT_EQ(share(pathOf(call).segments, "waiting for free slots"), 0);
}

}  // namespace
}  // namespace horing
