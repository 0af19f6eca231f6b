// What bounds a collective, on machines in which there is one such thing.
#include "sim/bottleneck.h"

#include <gtest/gtest.h>

#include "sim/wire_bound.h"
#include "simulated.h"

namespace horing {
namespace {

std::string bottleneckOf(Simulated call) {
  call.record = Record::kEverything;
  const std::vector<Schedule> schedules = buildAll(call.algorithm, call.collective, call.shape);
  const SimulationInput input = inputOf(call, schedules);
  const Result<FoldedNetwork> network = FoldedNetwork::build(schedules, input.folding);
  EXPECT_TRUE(network.ok());
  const Picoseconds bound = wireBound(call.collective, static_cast<double>(call.bytes), input.machine);
  return bottleneckText(simulated(call), network.value(), bound);
}

// Nothing takes time but what a test sets.
MachineModel freeMachine() {
  MachineModel machine;
  machine.between = machine.inside = {0, 0, 0, 0, 0};
  machine.nic = Owner::kNode;
  return machine;
}

TEST(Bottleneck, IsALinkThatIsBusy) {
  MachineModel machine = freeMachine();
  machine.between.gbytes_per_s = 1;
  EXPECT_EQ(bottleneckOf({"ho_ring", Collective::kAllReduce, {4, 2}, 1 << 20, machine, {}}),
            "links between nodes: every node sends at 100 % of its rate");
  machine = freeMachine();
  machine.inside.gbytes_per_s = 1;
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllGather, {1, 4}, 1 << 20, machine, {}}),
            "links inside a node: every rank sends at 100 % of its rate");
}

// Only the root's node sends, to each of the others.
TEST(Bottleneck, IsTheLinkOfOneNodeIfTheOthersAreLessBusy) {
  MachineModel machine = freeMachine();
  machine.between.gbytes_per_s = 1;
  EXPECT_EQ(bottleneckOf({"star", Collective::kScatter, {4, 1}, 1 << 20, machine, {}}),
            "links between nodes: the busiest node sends at 100 % of its rate");
}

TEST(Bottleneck, IsAnAlgorithmThatSendsMoreThanItMust) {
  MachineModel machine = freeMachine();
  machine.between.gbytes_per_s = 1;
  EXPECT_EQ(
      bottleneckOf({"direct", Collective::kAllGather, {2, 4}, 1 << 20, machine, {}}),
      "algorithm: its messages take 4.0 times as long as the fewest bytes would; links between nodes: every "
      "node sends at 100 % of its rate");
}

TEST(Bottleneck, IsAnAlgorithmWhoseMessagesWaitForOneAnother) {
  MachineModel machine = freeMachine();
  machine.between.gbytes_per_s = 1;
  EXPECT_EQ(
      bottleneckOf({"chain", Collective::kBroadcast, {4, 1}, 1 << 20, machine, unsliced()}),
      "algorithm: its messages wait for one another, and are on lines between nodes for 100 % of the time");
}

// One message from each node: no algorithm does better.
TEST(Bottleneck, IsALinkIfLatencyAddsToTheFewestBytes) {
  MachineModel machine = freeMachine();
  machine.between = {40, 1, 0, 0, 0};
  EXPECT_EQ(bottleneckOf({"direct", Collective::kAllGather, {2, 1}, 120'000, machine, unsliced()}),
            "links between nodes: no more bytes than needed, which take 60 % of the time");
  machine.between.latency_us = 90;
  EXPECT_EQ(bottleneckOf({"direct", Collective::kAllGather, {2, 1}, 120'000, machine, unsliced()}),
            "latency between nodes: 1 message, 90.0 us; 60 % of the time");
}

TEST(Bottleneck, IsTheMemoryOfANode) {
  MachineModel machine = freeMachine();
  machine.memory_gbytes_per_s = 1;
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllGather, {1, 4}, 1 << 20, machine, {}}),
            "memory: that of every node moves data at 100 % of its rate");
}

TEST(Bottleneck, IsTheCores) {
  MachineModel machine = freeMachine();
  machine.step_us = 1;
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllGather, {1, 4}, 64, machine, unsliced()}),
            "cores: 4 steps that wait for one another compute, or wait for a core, for 100 % of the time");
  machine.cores = 1;
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllGather, {1, 4}, 64, machine, unsliced()}),
            "cores: those of every node compute for 100 % of the time");
  machine.cores_of = Owner::kMachine;
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllGather, {1, 4}, 64, machine, unsliced()}),
            "cores: those of the machine compute for 100 % of the time");
}

TEST(Bottleneck, IsTheLatencyOfMessagesThatWaitForOneAnother) {
  MachineModel machine = freeMachine();
  machine.between = {38, 1, 0, 0, 0};
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllReduce, {8, 1}, 64, machine, unsliced()}),
            "latency between nodes: 14 messages that wait for one another, 38.0 us each; 100 % of the time");
}

TEST(Bottleneck, IsTheReceiversSlots) {
  MachineModel machine = freeMachine();
  machine.between = {50, 100, 0, 0, 0};
  Simulated call{"ring", Collective::kAllGather, {3, 1}, 3 * 64 * 100, machine, {}};
  call.pipelining.slices_per_chunk = 64;
  call.pipelining.slots_between = 5;
  EXPECT_TRUE(bottleneckOf(call).starts_with("slots: ")) << bottleneckOf(call);
}

TEST(Bottleneck, IsNothingWhereNothingTakesTime) {
  EXPECT_EQ(bottleneckOf({"ring", Collective::kAllGather, {1, 4}, 64, freeMachine(), {}}), "");
}

}  // namespace
}  // namespace horing
