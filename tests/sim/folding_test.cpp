// One node for all must give exactly what all nodes give.
#include "sim/folding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "../sanitizer.h"
#include "simulated.h"

namespace horing {
namespace {

Folding foldingOf(const char* algorithm, Collective collective, const Shape& shape) {
  const Result<Folding> found = findFolding(shape.groups, shape.members, [&](int32_t position) {
    return buildSchedule(algorithm, collective, shape, position);
  });
  EXPECT_TRUE(found.ok()) << found.status().toString();
  return found.ok() ? found.value() : Folding(Folding::Kind::kNone, shape.groups, shape.members);
}

SimulationResult folded(const Simulated& wanted, const Folding& folding) {
  std::vector<Schedule> schedules = buildAll(wanted.algorithm, wanted.collective, wanted.shape);
  schedules.resize(static_cast<size_t>(folding.simulatedRanks()));
  SimulationInput input = inputOf(wanted, schedules);
  input.folding = folding;
  Result<SimulationResult> result = simulate(input);
  EXPECT_TRUE(result.ok()) << result.status().toString();
  return result.ok() ? result.take() : SimulationResult();
}

MachineModel machineWith(Owner nic, double cores) {
  MachineModel machine;
  machine.nic = nic;
  machine.between = {5, 12.5, 0.2, 20};
  machine.inside = {1, 40, 0.1, 0};
  machine.memory_gbytes_per_s = 100;
  machine.cores = cores;
  machine.cores_of = cores == 2 ? Owner::kMachine : Owner::kNode;
  machine.step_us = 0.1;
  machine.copy_gbytes_per_s = 10;
  machine.fold_gbytes_per_s = 5;
  return machine;
}

// The ranks of each node take turns on its cores.
MachineModel machineWithTurns(double cores) {
  MachineModel machine = machineWith(Owner::kNode, cores);
  machine.cores_of = Owner::kNode;
  machine.turn_us = 1.5;
  machine.wake_us = 40;
  machine.patience_us = 30;
  return machine;
}

TEST(Folding, GivesExactlyWhatAllNodesGive) {
  const MachineModel machines[] = {
      machineWithTurns(2),          machineWith(Owner::kNode, 1), MachineModel(),
      machineWith(Owner::kRank, 0), machineWith(Owner::kNode, 2), machineWithTurns(1)};
  int folds = 0;
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (const Collective collective : kEveryCollective)
      for (const Shape& shape : {Shape{2, 4}, Shape{3, 2}, Shape{4, 3}, Shape{8, 2}, Shape{5, 1}}) {
        if (!algorithm.has(collective) || hasRoot(collective)) continue;
        const Folding folding = foldingOf(algorithm.name, collective, shape);
        if (!folding.folds()) continue;
        ++folds;
        for (const MachineModel& machine : test::firstUnderSanitizer(2, machines)) {
          // A multiple of 16 elements for each rank, so that all chunks have one size.
          const uint64_t bytes = 64 * 3 * 1000 * static_cast<uint64_t>(shape.ranks());
          const Simulated call{algorithm.name, collective, shape, bytes, machine, {}};
          const SimulationResult all = simulated(call), one = folded(call, folding);
          EXPECT_EQ(one.time, all.time) << algorithm.name << " " << collectiveName(collective) << " "
                                        << shape.groups << " x " << shape.members;
          EXPECT_EQ(one.slices * shape.groups, all.slices);
          EXPECT_EQ(one.messages * shape.groups, all.messages);
        }
      }
  EXPECT_GE(folds, 40);
}

TEST(Folding, IsRefusedWhereNodesTakeTurnsOnTheSameCores) {
  const Shape shape{3, 2};
  const std::vector<Schedule> schedules = buildAll("ring", Collective::kAllGather, shape);
  MachineModel machine = machineWithTurns(2);
  machine.cores_of = Owner::kMachine;
  SimulationInput input = inputOf({"ring", Collective::kAllGather, shape, 6000, machine, {}}, schedules);
  EXPECT_TRUE(simulate(input).ok());
  input.folding = foldingOf("ring", Collective::kAllGather, shape);
  input.schedules = std::span(schedules).first(2);
  EXPECT_NE(simulate(input).status().message().find("take turns"), std::string::npos);
}

TEST(Folding, FindsTheSymmetryThereIs) {
  using Kind = Folding::Kind;
  for (const Collective collective : kSymmetric) {
    EXPECT_EQ(foldingOf("ring", collective, {6, 4}).kind(), Kind::kRotation);
    EXPECT_EQ(foldingOf("ho_ring", collective, {6, 4}).kind(), Kind::kRotation);
    EXPECT_EQ(foldingOf("ho_ring_direct", collective, {3, 4}).kind(), Kind::kRotation);
    EXPECT_EQ(foldingOf("ho_ring", collective, {1, 4}).kind(), Kind::kNone);
  }
  EXPECT_EQ(foldingOf("ho_doubling", Collective::kAllReduce, {8, 4}).kind(), Kind::kMirror);
  EXPECT_EQ(foldingOf("ho_halving", Collective::kAllGather, {8, 4}).kind(), Kind::kMirror);
  EXPECT_EQ(foldingOf("star", Collective::kAllReduce, {2, 2}).kind(), Kind::kNone);
  EXPECT_EQ(foldingOf("binomial", Collective::kBroadcast, {4, 1}).kind(), Kind::kNone);
}

// Bytes that a schedule takes, written down as it is.
size_t memoryOf(const Schedule& schedule) {
  size_t bytes = sizeof(Schedule);
  for (const Lane& lane : schedule.lanes)
    for (const Block& block : lane.blocks) {
      bytes += sizeof(Block);
      for (const Step& step : block.body)
        bytes +=
            sizeof(Step) + step.sources.size() * sizeof(Source) + step.signal_to.size() * sizeof(int32_t);
    }
  return bytes;
}

// Blocks that repeat are written down once, and one node stands for 2,048: (M-1) max(te, ti) + ti, of each phase.
TEST(Folding, TakesSixteenThousandRanksByTheClosedForm) {
  const Shape shape{2048, 8};
  const Folding folding = foldingOf("ho_ring", Collective::kAllReduce, shape);
  ASSERT_EQ(folding.kind(), Folding::Kind::kRotation);
  std::vector<Schedule> schedules;
  for (int32_t position = 0; position < shape.members; ++position) {
    Result<Schedule> schedule = buildSchedule("ho_ring", Collective::kAllReduce, shape, position);
    ASSERT_TRUE(schedule.ok());
    EXPECT_LT(memoryOf(schedule.value()), size_t{1} << 20);
    schedules.push_back(schedule.take());
  }
  MachineModel machine;
  machine.between = {5, 12.5, 0, 0};
  machine.inside = {1, 125, 0, 0};
  SimulationInput input = inputOf(
      {"ho_ring", Collective::kAllReduce, shape, uint64_t{65536} * 16384, machine, unsliced()}, schedules);
  input.folding = folding;
  const Result<SimulationResult> result = simulate(input);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const int64_t between = 5'000'000 + 65536 * 80, inside = 7 * (1'000'000 + 65536 * 8);
  EXPECT_EQ(result.value().time, 2 * (2047 * std::max(between, inside) + inside));
}

// One rank that does something else is found, whichever it is.
TEST(Folding, BelievesNoScheduleItHasNotSeen) {
  const Shape shape{4, 2};
  for (int32_t odd = 2; odd < shape.ranks(); ++odd) {
    const Result<Folding> found = findFolding(shape.groups, shape.members, [&](int32_t position) {
      Result<Schedule> schedule = buildSchedule("ho_ring", Collective::kAllGather, shape, position);
      if (position == odd) schedule.value().lanes[1].blocks.back().body.back().completes = true;
      return schedule;
    });
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(found.value().folds()) << odd;
  }
}

TEST(Folding, LooksAtSomeNodesWhereThatIsAskedFor) {
  const Shape shape{64, 2};
  for (const char* algorithm : {"ho_ring", "ho_halving", "ho_leaders", "direct"}) {
    std::set<int32_t> nodes;
    const auto schedule_of = [&](int32_t position) {
      nodes.insert(position / shape.members);
      return buildSchedule(algorithm, Collective::kAllReduce, shape, position);
    };
    const Result<Folding> some = findFolding(shape.groups, shape.members, schedule_of, 5);
    ASSERT_TRUE(some.ok());
    if (some.value().folds()) {
      EXPECT_EQ(nodes.size(), 6u) << algorithm;
      EXPECT_TRUE(nodes.contains(63)) << algorithm;
    }
    const Result<Folding> all = findFolding(shape.groups, shape.members, schedule_of);
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(some.value().kind(), all.value().kind()) << algorithm;
  }
}

TEST(Folding, MapsOntoItself) {
  for (const Folding& folding :
       {Folding(Folding::Kind::kRotation, 6, 3), Folding(Folding::Kind::kMirror, 8, 2)})
    for (int32_t node = 0; node < folding.nodes(); ++node) {
      EXPECT_EQ(folding.nodeOf(folding.image(0, node)), node);
      EXPECT_EQ(folding.nodeOf(folding.image(node * folding.ranksPerNode(), folding.inverse(node))), 0);
    }
}

}  // namespace
}  // namespace horing
