// Real machines, and horing's rings and rails on them. SOURCES.md says how to add one.
#include <algorithm>
#include <filesystem>

#include "graphs.h"
#include "layout.h"
#include "notes.h"
#include "plan.h"
#include "topology/job_map.h"

namespace horing::test {
namespace {

std::vector<std::string> machineNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(HORING_MACHINES))
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Machines : public testing::TestWithParam<std::string> {};

TEST_P(Machines, HaveTheMapThatIsExpected) {
  const std::string path = HORING_MACHINES "/" + GetParam();
  const topo::MachinePlan plan = topo::planMachine(read(fileText(path + ".xml")));
  EXPECT_EQ(topo::planAsText(plan), fileText(path + ".txt"))
      << "if this is better: horing-topo " << GetParam() << ".xml > " << GetParam() << ".txt";
}

TEST_P(Machines, MakePicturesAndJson) {
  const topo::MachinePlan plan = topo::planMachine(read(fileText(HORING_MACHINES "/" + GetParam() + ".xml")));
  const std::string picture = topo::planAsSvg(plan, GetParam());
  for (const int32_t member : plan.ring.order)
    EXPECT_NE(picture.find(">" + plan.memberName(member) + "<"), std::string::npos);
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_NE(topo::planAsJson(plan).find("\"rails\""), std::string::npos);
}

using topo::kScreen;

double sideOf(const std::string& picture, const std::string& side) {
  return std::stod(picture.substr(picture.find(side + "=\"") + side.size() + 2));
}

void expectOnAScreen(const MachineGraph& graph, const std::string& title) {
  const std::string picture = topo::planAsSvg(topo::planMachine(graph), title);
  EXPECT_LE(sideOf(picture, "width"), 1600) << title;
  EXPECT_LE(sideOf(picture, "height"), 1600) << title;
}

// Every box within the one around it and next to its neighbours, all of them no wider than a screen.
void expectInOrder(const MachineGraph& graph) {
  topo::Layout layout(graph, [](int32_t) { return std::string("a box"); }, {kScreen, kScreen});
  layout.place(0, 0);
  EXPECT_LE(layout.size().width, kScreen);
  EXPECT_LE(layout.size().height, kScreen);
  for (int32_t node = 1; node < static_cast<int32_t>(graph.nodes().size()); ++node) {
    if (graph.node(node).kind == NodeKind::kFabric) continue;
    const topo::Place &own = layout.at(node), &around = layout.at(graph.node(node).parent);
    EXPECT_TRUE(own.x >= around.x && own.x + own.size.width <= around.x + around.size.width) << node;
    EXPECT_TRUE(own.y >= around.y && own.floor() <= around.floor()) << node;
    for (const int32_t other : graph.childrenOf(graph.node(node).parent)) {
      if (other >= node || graph.node(other).kind == NodeKind::kFabric) continue;
      const topo::Place& place = layout.at(other);
      EXPECT_TRUE(place.x >= own.x + own.size.width || own.x >= place.x + place.size.width ||
                  place.y >= own.floor() || own.y >= place.floor())
          << node << " on " << other;
    }
  }
}

TEST_P(Machines, AreDrawnInOrder) {
  expectInOrder(read(fileText(HORING_MACHINES "/" + GetParam() + ".xml")));
}

TEST_P(Machines, AreDrawnOnAScreen) {
  expectOnAScreen(read(fileText(HORING_MACHINES "/" + GetParam() + ".xml")), GetParam());
}

TEST(Pictures, ShowTheAddressOfAnAdapterWithoutAName) {
  const std::string picture =
      topo::planAsSvg(topo::planMachine(read(fileText(HORING_MACHINES "/azure-ndv5.xml"))), "");
  EXPECT_NE(picture.find("class=\"name\" text-anchor=\"middle\">adapter<"), std::string::npos);
  EXPECT_NE(picture.find("class=\"small\" text-anchor=\"middle\">0101:00:00.0<"), std::string::npos);
}

// Up to where boxes are left out, and beyond. What is said of 24 NUMA nodes in one line is wider than a screen.
TEST(Pictures, OfManyNumaNodesAreOnAScreen) {
  for (const char* machine : {"numa:24 core:4 pu:1", "pack:2 numa:12 core:4 pu:1",
                              "pack:16 numa:4 core:1 pu:1", "pack:32 numa:8 core:1 pu:1"})
    expectOnAScreen(read(machine), machine);
}

TEST(Pictures, SayWhatIsLeftOut) {
  const std::string all = topo::planAsSvg(topo::planMachine(read("pack:2 numa:12 core:4 pu:1")), "");
  EXPECT_EQ(all.find(" drawn<"), std::string::npos);
  const std::string some = topo::planAsSvg(topo::planMachine(read("numa:256 core:1 pu:1")), "");
  const std::string before = ">machine, ";
  ASSERT_NE(some.find(before), std::string::npos);
  const int drawn = std::stoi(some.substr(some.find(before) + before.size()));
  EXPECT_NE(some.find(formatString("%d of 256 drawn<", drawn)), std::string::npos);
  EXPECT_NE(some.find(formatString(">numa %d<", drawn - 1)), std::string::npos);
  EXPECT_EQ(some.find(formatString(">numa %d<", drawn)), std::string::npos);
  EXPECT_NE(some.find(">.. and more: "), std::string::npos);
}

// 72 GPUs, each with an adapter of its own that its rail names.
MachineGraph manyRails() {
  GraphBuilder builder;
  for (int gpu = 0; gpu < 72; ++gpu) {
    const int32_t numa = builder.add({NodeKind::kNuma, 0, std::to_string(gpu), 100});
    const std::string bus = formatString("0000:%02x:00.0", gpu + 1);
    builder.add({NodeKind::kGpu, numa, bus, 64, 0, bus});
    builder.add({NodeKind::kNic, numa, formatString("mlx5_%d", gpu), 64, 50});
  }
  return built(builder);
}

TEST(Pictures, NameManyRailsInColumns) {
  expectOnAScreen(manyRails(), "72 GPUs");
  const std::string picture = topo::planAsSvg(topo::planMachine(manyRails()), "72 GPUs");
  EXPECT_NE(picture.find(">rail 71 GPU71 by mlx5_71: "), std::string::npos);
}

TEST(Pictures, OfLargeMachinesHaveRows) {
  expectInOrder(read("pack:8 numa:4 core:8 pu:2"));
  GraphBuilder builder;
  const int32_t numa = builder.add({NodeKind::kNuma, 0, "0", 100});
  for (int device = 0; device < 72; ++device) {
    builder.add({NodeKind::kGpu, numa, "g" + std::to_string(device), 100});
    builder.add({NodeKind::kNic, numa, "n" + std::to_string(device), 100, 25});
  }
  expectInOrder(built(builder));
}

// A ring that goes to another row at every hop.
TEST(Pictures, AreNoWiderThanAScreenWithTheirRing) {
  GraphBuilder builder;
  const int32_t numa = builder.add({NodeKind::kNuma, 0, "0", 100});
  std::vector<int32_t> gpus;
  for (int bridge = 0; bridge < 9; ++bridge) {
    const int32_t parent =
        builder.add({NodeKind::kBridge, numa, formatString("0000:%02x:00.0", bridge + 1), 16});
    for (int gpu = 0; gpu < 8; ++gpu) {
      const std::string bus = formatString("0000:%02x:00.0", 0x20 + 8 * bridge + gpu);
      gpus.push_back(builder.add({NodeKind::kGpu, parent, bus, 16, 0, bus}));
    }
  }
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) builder.link(gpus[gpu], gpus[(gpu + 31) % gpus.size()], 50);
  const topo::MachinePlan plan = topo::planMachine(built(builder));
  EXPECT_EQ(plan.ring.worst, PathKind::kDirect);
  const std::string picture = topo::planAsSvg(plan, "72 GPUs");
  EXPECT_LE(sideOf(picture, "width"), kScreen);
  EXPECT_LE(sideOf(picture, "height"), kScreen);
}

std::vector<std::string> nicNames(const MachineGraph& graph, const Rail& rail) {
  std::vector<std::string> names;
  for (const int32_t nic : rail.nics) names.push_back(graph.node(nic).name);
  return names;
}

// The printed and drawn choices are those of a rank's transports, which know only the rank's fragment.
TEST_P(Machines, HaveTheRailsThatTransportsUse) {
  const topo::MachinePlan plan = topo::planMachine(read(fileText(HORING_MACHINES "/" + GetParam() + ".xml")));
  for (size_t member = 0; member < plan.members.size(); ++member) {
    const Fragment fragment = fragmentOf(plan.graph, plan.members[member]);
    const Result<MachineGraph> part = MachineGraph::make(fragment.nodes, {});
    ASSERT_TRUE(part.ok()) << part.status().toString();
    const std::vector<Rail> rails = assignRails(part.value(), std::vector<int32_t>{fragment.home});
    EXPECT_EQ(nicNames(part.value(), rails[0]), nicNames(plan.graph, plan.rails[member]));
  }
}

std::string nameOf(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Of, Machines, testing::ValuesIn(machineNames()), nameOf);

TEST(MachineFiles, AreAtLeastTen) {
  EXPECT_GE(machineNames().size(), 10u);
}

}  // namespace
}  // namespace horing::test
