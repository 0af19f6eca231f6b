#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../../temporary_folder.h"
#include "program.h"

namespace horing::test {
namespace {

using Json = nlohmann::json;

Outcome runTopo(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HORING_TOPO_PROGRAM);
  return runProgram(arguments);
}

class HoringTopo : public testing::Test {
 protected:
  std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(HoringTopo, ShowsThisMachine) {
  const Outcome outcome = runTopo({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["nodes"][0]["kind"], "machine");
  EXPECT_FALSE(json["ring"]["members"].empty());
}

TEST_F(HoringTopo, DrawsTheMachineOfAFile) {
  const std::string picture = (folder_ / "p4d.svg").string();
  const Outcome outcome = runTopo({HORING_MACHINES "/aws-p4d.xml", "--svg", picture});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("ring   GPU0 > GPU1 >"), std::string::npos) << outcome.output;
  EXPECT_EQ(content("p4d.svg").rfind("<svg", 0), 0u);
  EXPECT_NE(content("p4d.svg").find(">GPU7<"), std::string::npos);
}

TEST_F(HoringTopo, WritesAFileThatItReadsAgain) {
  const std::string file = (folder_ / "dump.xml").string();
  const Outcome first = runTopo({"pack:2 numa:2 core:2 pu:1", "--dump", file});
  const Outcome again = runTopo({file});
  ASSERT_EQ(first.code, 0) << first.errors;
  EXPECT_EQ(first.output, again.output) << again.errors;
  EXPECT_NE(again.output.find("ring   NUMA 0 > NUMA 1 > NUMA 2 > NUMA 3 > back"), std::string::npos);
}

TEST_F(HoringTopo, SaysWhatIsWrong) {
  std::ofstream(folder_ / "bad.xml") << "<system><cpu numaid=\"0\"><pci busid=\"here\"/></cpu></system>";
  const Outcome bad = runTopo({(folder_ / "bad.xml").string()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.errors.find("bad.xml: "), std::string::npos) << bad.errors;
  EXPECT_NE(bad.errors.find("line 1: <pci> needs a PCI address"), std::string::npos) << bad.errors;
  std::ofstream(folder_ / "short.xml") << "<system><cpu numaid=\"0\">\n";
  std::ofstream(folder_ / "empty.xml") << "\n";
  const std::pair<std::string, const char*> wrong[] = {
      {(folder_ / "short.xml").string(), "line 2: no element found: the end of the file is missing"},
      {(folder_ / "empty.xml").string(), "the description is empty"},
      {folder_.string(), "Is a directory"},
      {"/nowhere.xml", "No such file"},
      {"/dev/zero", "is larger than"},
      {"pack:0", "\"pack:0\" asks for no objects; expected are levels with counts"},
      {"pack:99999999999999999999", "asks for more than 4,096 objects"},
      {"pack:-1", "is something else; expected are levels with counts"}};
  for (const auto& [what, why] : wrong) {
    const Outcome outcome = runTopo({what});
    EXPECT_EQ(outcome.code, 1) << what;
    EXPECT_NE(outcome.errors.find(why), std::string::npos) << outcome.errors;
  }
  std::ofstream(folder_ / "nothing.xml") << "<system/>";
  EXPECT_NE(runTopo({(folder_ / "nothing.xml").string()}).output.find("neither a GPU nor a NUMA node"),
            std::string::npos);
  EXPECT_EQ(runTopo({"--no-such-option"}).code, 2);
  EXPECT_NE(runTopo({"--help"}).output.find("Examples"), std::string::npos);
}

}  // namespace
}  // namespace horing::test
