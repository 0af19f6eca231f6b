#include "topology/rails.h"

#include <map>

#include "graphs.h"

namespace horing::test {
namespace {

// Two NUMA nodes; `gpus` and NICs of these speeds (GB/s) in each.
MachineGraph machineWith(int gpus, const std::vector<double>& left, const std::vector<double>& right) {
  GraphBuilder builder;
  int made = 0;
  for (const auto* speeds : {&left, &right}) {
    const int32_t numa = builder.add({NodeKind::kNuma, 0, std::to_string(made), 100});
    for (int gpu = 0; gpu < gpus; ++gpu)
      builder.add({NodeKind::kGpu, numa, "g" + std::to_string(made++), 100});
    for (const double speed : *speeds)
      builder.add({NodeKind::kNic, numa, "n" + std::to_string(made++), 100, speed});
  }
  return built(builder);
}

std::vector<Rail> railsOf(const MachineGraph& graph) {
  return assignRails(graph, graph.ofKind(NodeKind::kGpu));
}

TEST(Rails, TakeTheNearestNic) {
  const MachineGraph graph = machineWith(1, {25}, {25});
  for (const Rail& rail : railsOf(graph)) {
    ASSERT_EQ(rail.nics.size(), 1u);
    EXPECT_EQ(rail.path, PathKind::kNuma);
    EXPECT_EQ(rail.gbytes_per_s, 25);
    EXPECT_EQ(rail.bound, Rail::Bound::kAdapters);
    EXPECT_EQ(rail.sharers, 1);
    EXPECT_EQ(rail.next_path, PathKind::kMachine);
  }
  EXPECT_NE(railsOf(graph)[0].nics, railsOf(graph)[1].nics);
  EXPECT_EQ(railsOf(graph)[0].next, railsOf(graph)[1].nics);
}

TEST(Rails, ShareAllNicsThatAreEquallyNear) {
  const MachineGraph graph = machineWith(4, {25, 25}, {25, 25});
  std::map<int32_t, int> users;
  for (const Rail& rail : railsOf(graph)) {
    ASSERT_EQ(rail.nics.size(), 2u);
    EXPECT_EQ(rail.gbytes_per_s, 12.5);
    EXPECT_EQ(rail.sharers, 4);
    for (const int32_t nic : rail.nics) ++users[nic];
  }
  EXPECT_EQ(users.size(), 4u);
  for (const auto& [nic, count] : users) EXPECT_EQ(count, 4);
}

TEST(Rails, PreferPartOfAFastNicToAllOfASlowOne) {
  const MachineGraph graph = machineWith(1, {25}, {12});
  const std::vector<Rail> rails = railsOf(graph);
  EXPECT_EQ(rails[0].nics, rails[1].nics);
  EXPECT_EQ(rails[1].gbytes_per_s, 12.5);
  EXPECT_EQ(rails[1].path, PathKind::kMachine);
  EXPECT_NE(railsOf(machineWith(1, {25}, {13}))[1].nics, rails[1].nics) << "half as fast is fast enough";
}

// GB/s of PCI links and lines; a line of 0 does not say.
std::vector<Rail> railsBeside(double link0, double line0, double link1, double line1) {
  GraphBuilder builder;
  const int32_t numa = builder.add({NodeKind::kNuma, 0, "0", 100});
  builder.add({NodeKind::kNic, numa, "n0", link0, line0});
  builder.add({NodeKind::kNic, numa, "n1", link1, line1});
  return assignRails(built(builder), std::vector<int32_t>{numa});
}

TEST(Rails, CompareLinesAndWhereNobodyKnowsThemPciLinks) {
  EXPECT_EQ(railsBeside(8, 12.5, 8, 1)[0].nics, (std::vector<int32_t>{2}));
  EXPECT_EQ(railsBeside(8, 0, 0.25, 0)[0].nics, (std::vector<int32_t>{2}));
  EXPECT_EQ(railsBeside(16, 12.5, 63, 0)[0].nics.size(), 2u) << "a wide link to a line of unknown speed";
  EXPECT_EQ(railsBeside(16, 12.5, 0.25, 0)[0].nics, (std::vector<int32_t>{2}));
}

TEST(Rails, AreNoWiderThanTheWayToTheGpu) {
  GraphBuilder builder;
  const int32_t bridge = builder.add({NodeKind::kBridge, 0, "0000:01:00.0", 16});
  builder.add({NodeKind::kGpu, bridge, "0000:02:00.0", 16});
  for (const char* name : {"n0", "n1"}) builder.add({NodeKind::kNic, bridge, name, 16, 12.5});
  const Rail rail = railsOf(built(builder))[0];
  EXPECT_EQ(rail.gbytes_per_s, 16);
  EXPECT_EQ(rail.bound, Rail::Bound::kMember);
  EXPECT_TRUE(rail.next.empty());
}

TEST(Rails, AreNoWiderThanTheWayBetween) {
  GraphBuilder builder;
  const int32_t numa = builder.add({NodeKind::kNuma, 0, "0", 100});
  builder.add({NodeKind::kGpu, numa, "g0", 100});
  builder.add({NodeKind::kNic, numa, "n0", 8, 25});
  const Rail rail = railsOf(built(builder))[0];
  EXPECT_EQ(rail.gbytes_per_s, 8);
  EXPECT_EQ(rail.bound, Rail::Bound::kWay);
}

// A fast line whose slot has few lanes.
TEST(Rails, ShareTheNarrowSlotOfANic) {
  GraphBuilder builder;
  const int32_t bridge = builder.add({NodeKind::kBridge, 0, "0000:01:00.0", 32});
  for (const char* name : {"0000:02:00.0", "0000:03:00.0"}) builder.add({NodeKind::kGpu, bridge, name, 32});
  builder.add({NodeKind::kNic, bridge, "n0", 4, 25});
  for (const Rail& rail : railsOf(built(builder))) {
    EXPECT_EQ(rail.gbytes_per_s, 2);
    EXPECT_EQ(rail.bound, Rail::Bound::kWay);
  }
}

TEST(Rails, UseNicsOfUnknownPlaceWhereThereAreNoOthers) {
  for (const bool beside : {false, true}) {
    GraphBuilder builder;
    const int32_t numa = builder.add({NodeKind::kNuma, 0, "0", 100});
    builder.add({NodeKind::kGpu, numa, "g0", 100});
    builder.add({NodeKind::kNic, 0, "bond0", 0, 25});
    if (beside) builder.add({NodeKind::kNic, numa, "n0", 100, 25});
    const MachineGraph graph = built(builder);
    ASSERT_EQ(railsOf(graph)[0].nics.size(), 1u);
    EXPECT_EQ(graph.node(railsOf(graph)[0].nics[0]).name, beside ? "n0" : "bond0");
  }
}

// A virtual machine that tells no NUMA nodes.
TEST(Rails, OfNicsThatHaveNoPlaceAreFastOnes) {
  GraphBuilder builder;
  builder.add({NodeKind::kGpu, 0, "g0", 63});
  builder.add({NodeKind::kNic, 0, "n0", 0, 50});
  builder.add({NodeKind::kNic, 0, "n1", 0, 50});
  builder.add({NodeKind::kNic, 0, "eth0", 0, 1.25});
  const Rail rail = railsOf(built(builder))[0];
  EXPECT_EQ(rail.nics.size(), 2u) << "not the one of 1.25 GB/s";
  EXPECT_EQ(rail.next.size(), 1u);
}

// One adapter for the GPUs of two NUMA nodes, the rate between which no file gives.
TEST(Rails, SayWhatComesFromAnAssumedRate) {
  GraphBuilder builder;
  for (const char* name : {"0", "1"}) {
    const int32_t numa = builder.add({NodeKind::kNuma, 0, name, kAssumedPackageGBytesPerS});
    builder.add({NodeKind::kGpu, numa, std::string("g") + name, 63});
    if (*name == '0') builder.add({NodeKind::kNic, numa, "n0", 63, 50});
  }
  const std::vector<Rail> rails = railsOf(built(builder));
  EXPECT_FALSE(rails[0].is_assumed);
  EXPECT_EQ(rails[0].gbytes_per_s, 25);
  EXPECT_TRUE(rails[1].is_assumed);
  EXPECT_EQ(rails[1].gbytes_per_s, kAssumedPackageGBytesPerS);
}

void expectTheOnlyNicIs(const char* name, GraphBuilder& builder) {
  const MachineGraph graph = built(builder);
  const Rail rail = railsOf(graph)[0];
  ASSERT_EQ(rail.nics.size(), 1u);
  EXPECT_EQ(graph.node(rail.nics[0]).name, name);
}

// A machine without NUMA nodes (GB10): its adapter on PCI, and not the tunnel that claims the same speed.
TEST(Rails, OfAMachineWithoutNumaNodesTakeItsAdapters) {
  GraphBuilder builder;
  builder.add({NodeKind::kGpu, 0, "g0", 4, 0, "000f:01:00.0"});
  builder.add({NodeKind::kNic, 0, "wlP9s9", 0.5, 1.25, "0009:01:00.0"});
  builder.add({NodeKind::kNic, 0, "tailscale0", 0, 1.25});
  expectTheOnlyNicIs("wlP9s9", builder);
}

// A bond has no PCI address: it is left out for a tunnel only beside an adapter that is about as fast.
TEST(Rails, OfAMachineWithoutNumaNodesTakeABondThatIsFarFaster) {
  GraphBuilder builder;
  builder.add({NodeKind::kGpu, 0, "g0", 64, 0, "0000:02:00.0"});
  builder.add({NodeKind::kNic, 0, "eth0", 1, 0.125, "0000:07:00.0"});
  builder.add({NodeKind::kNic, 0, "bond0", 0, 25});
  expectTheOnlyNicIs("bond0", builder);
}

// A rank that may run anywhere: all NICs but slow ones, wherever they are.
TEST(Rails, OfTheMachineAreAllFastNics) {
  const MachineGraph graph = machineWith(1, {25, 1}, {25});
  const std::vector<Rail> rails = assignRails(graph, std::vector<int32_t>{0});
  EXPECT_EQ(rails[0].nics.size(), 2u);
  for (const int32_t nic : rails[0].nics) EXPECT_EQ(graph.node(nic).port_gbytes_per_s, 25);
}

TEST(Rails, AreEmptyWithoutNics) {
  const MachineGraph graph = machineWith(2, {}, {});
  ASSERT_EQ(railsOf(graph).size(), 4u);
  EXPECT_TRUE(railsOf(graph)[0].nics.empty());
  EXPECT_TRUE(assignRails(graph, {}).empty());
}

}  // namespace
}  // namespace horing::test
