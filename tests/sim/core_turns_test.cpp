// Worked out by hand: a turn takes 2 us, coming out of an idle core 30 us.
#include "sim/core_turns.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

constexpr Picoseconds kUs = 1'000'000;

MachineModel machineOf(int32_t ranks, double cores) {
  MachineModel machine;
  machine.nodes = 1;
  machine.ranks_per_node = ranks;
  machine.cores = cores;
  machine.turn_us = 2;
  machine.wake_us = 30;
  machine.patience_us = 100;
  return machine;
}

CoreTurns turnsOf(const MachineModel& machine) {
  return {machine, Folding(Folding::Kind::kNone, machine.nodes, machine.ranks_per_node)};
}

// The next rank to run, and when; ranks that block are skipped.
std::pair<int32_t, Picoseconds> nextOf(CoreTurns& turns) {
  while (turns.next() != CoreTurns::kNever) {
    const Picoseconds at = turns.next();
    if (const int32_t rank = turns.pop(at); rank >= 0) return {rank, at};
  }
  return {-1, 0};
}

using Begun = std::pair<int32_t, Picoseconds>;

TEST(CoreTurns, SayWhoIsOnWhichCore) {
  const auto cores_of = [](const MachineModel& machine) {
    return coresOfPositions(machine, Folding(Folding::Kind::kNone, machine.nodes, machine.ranks_per_node));
  };
  EXPECT_EQ(cores_of(machineOf(4, 2)), (std::vector<size_t>{0, 1, 0, 1}));
  EXPECT_TRUE(cores_of(machineOf(4, 4)).empty());
  MachineModel nodes = machineOf(3, 2);
  nodes.nodes = 2;
  EXPECT_EQ(cores_of(nodes), (std::vector<size_t>{0, 1, 0, 2, 3, 2}));
}

// Of four ranks on a core, the last one: those before it look first. Then the first one: its turn has passed.
TEST(CoreTurns, LetOneWaitForTheLooksOfAllBeforeIt) {
  CoreTurns turns = turnsOf(machineOf(4, 1));
  turns.begin(3, 0);
  EXPECT_EQ(nextOf(turns), Begun(3, 6 * kUs));
  turns.end(3, 7 * kUs);
  turns.begin(2, 7 * kUs);
  EXPECT_EQ(nextOf(turns), Begun(2, 13 * kUs));
}

// Ranks 0 and 1 have looked 25 times when there is something for rank 0, in the middle of its look: it is seen when that ends.
TEST(CoreTurns, AreTakenWhileNothingIsFound) {
  CoreTurns turns = turnsOf(machineOf(2, 1));
  turns.begin(0, 51 * kUs);
  EXPECT_EQ(nextOf(turns), Begun(0, 52 * kUs));
  turns.end(0, 60 * kUs);
  turns.begin(0, 60 * kUs);
  EXPECT_EQ(nextOf(turns), Begun(0, 64 * kUs)) << "after the look of the other";
}

// At 100 us all four have waited long enough: each blocks at its next look, and the core is idle.
TEST(CoreTurns, AreNotTakenByWhoHasBlocked) {
  CoreTurns turns = turnsOf(machineOf(4, 1));
  EXPECT_EQ(nextOf(turns), Begun(-1, 0));
  turns.begin(2, 200 * kUs);
  EXPECT_EQ(nextOf(turns), Begun(2, 230 * kUs)) << "out of the idle core";
  turns.begin(1, 231 * kUs);
  turns.end(2, 235 * kUs);
  EXPECT_EQ(nextOf(turns), Begun(1, 237 * kUs)) << "the core was busy";
  turns.end(1, 240 * kUs);
  turns.begin(1, 250 * kUs);
  EXPECT_EQ(nextOf(turns), Begun(1, 252 * kUs)) << "rank 2 is the only one that looks beside it";
}

// Six ranks on two cores: rank 4 has two others before it on its own, and none of those of the other core.
TEST(CoreTurns, AreOfEachCoreByItself) {
  CoreTurns turns = turnsOf(machineOf(6, 2));
  turns.begin(4, 0);
  turns.begin(1, 0);
  EXPECT_EQ(turns.pop(0), 1) << "its turn has come already";
  EXPECT_EQ(nextOf(turns), Begun(4, 4 * kUs));
}

}  // namespace
}  // namespace horing
