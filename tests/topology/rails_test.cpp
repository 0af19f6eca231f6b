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
    EXPECT_EQ(rail.path, PathKind::kNuma);
    EXPECT_EQ(rail.gbytes_per_s, 25);
  }
  EXPECT_NE(railsOf(graph)[0].nics, railsOf(graph)[1].nics);
}

TEST(Rails, SpreadOverNicsThatAreEquallyNear) {
  const MachineGraph graph = machineWith(4, {25, 25}, {25, 25});
  std::map<int32_t, int> users;
  for (const Rail& rail : railsOf(graph)) {
    ASSERT_EQ(rail.nics.size(), 1u);
    EXPECT_EQ(rail.gbytes_per_s, 12.5);
    ++users[rail.nics[0]];
  }
  EXPECT_EQ(users.size(), 4u);
  for (const auto& [nic, count] : users) EXPECT_EQ(count, 2);
}

TEST(Rails, PreferHalfOfAFastNicToAllOfASlowOne) {
  const MachineGraph graph = machineWith(1, {25}, {1});
  const std::vector<Rail> rails = railsOf(graph);
  EXPECT_EQ(rails[0].nics, rails[1].nics);
  EXPECT_EQ(rails[1].gbytes_per_s, 12.5);
}

TEST(Rails, ShareAccordingToSpeed) {
  // 3 GPUs by the fast one (8.3 each) and one by the slow one (6) beats two and two.
  const MachineGraph graph = machineWith(2, {25}, {6});
  int fast = 0;
  for (const Rail& rail : railsOf(graph)) {
    fast += graph.node(rail.nics[0]).port_gbytes_per_s == 25;
    EXPECT_GE(rail.gbytes_per_s, 6);
  }
  EXPECT_GE(fast, 3);
}

TEST(Rails, UseNicsThatAreLeftUnlessTheyAreSlow) {
  const MachineGraph graph = machineWith(1, {25, 25, 1}, {25, 25});
  const std::vector<Rail> rails = railsOf(graph);
  EXPECT_EQ(rails[0].nics.size(), 2u);
  EXPECT_EQ(rails[0].gbytes_per_s, 50);
  EXPECT_EQ(rails[1].nics.size(), 2u);
}

TEST(Rails, AreEmptyWithoutNics) {
  const MachineGraph graph = machineWith(2, {}, {});
  ASSERT_EQ(railsOf(graph).size(), 4u);
  EXPECT_TRUE(railsOf(graph)[0].nics.empty());
  EXPECT_TRUE(assignRails(graph, {}).empty());
}

}  // namespace
}  // namespace horing::test
