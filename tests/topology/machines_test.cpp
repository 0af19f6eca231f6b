// Real machines, and the rings and rails that horing lays in them. SOURCES.md says how to add one.
#include <filesystem>

#include "graphs.h"
#include "plan.h"

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
