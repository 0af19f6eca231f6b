// Real machines, and the rings and rails that horing lays in them. SOURCES.md says how to add one.
#include <filesystem>

#include "graphs.h"
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

std::vector<std::string> nicNames(const MachineGraph& graph, const Rail& rail) {
  std::vector<std::string> names;
  for (const int32_t nic : rail.nics) names.push_back(graph.node(nic).name);
  return names;
}

// What is printed and drawn is what a rank's transports choose by, which know no more than the rank's fragment.
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
