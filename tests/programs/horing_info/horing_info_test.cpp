#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/config.h"
#include "program.h"

namespace horing::test {
namespace {

using Json = nlohmann::json;

Outcome runInfo(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
  std::vector<std::string> command = {"env"};
  command.insert(command.end(), environment.begin(), environment.end());
  command.push_back(HORING_INFO_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return runProgram(command);
}

Json named(const Json& list, const std::string& name) {
  for (const Json& one : list)
    if (one["name"] == name) return one;
  ADD_FAILURE() << name << " is not listed";
  return {};
}

TEST(HoringInfo, ListsEveryVariableWithItsValueInEffect) {
  const Outcome outcome = runInfo({"--json", "--ranks", "0"}, {"HORING_WINDOW=3"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["variables"].size(), configVariables().size());
  const Json window = named(json["variables"], "HORING_WINDOW");
  EXPECT_EQ(window["value"], "3");
  EXPECT_EQ(window["set"], true);
  EXPECT_EQ(window["default"], "4");
  EXPECT_EQ(named(json["variables"], "HORING_SLOTS")["set"], false);
  EXPECT_GE(json["machine"]["usable_units"], 1);
  EXPECT_TRUE(json["transports"].empty());
  EXPECT_TRUE(json["environment_error"].is_null());
}

TEST(HoringInfo, WarnsOfVariablesThatNobodyReads) {
  const Outcome outcome = runInfo({"--json", "--ranks", "0"}, {"HORING_SLOT=3"});
  EXPECT_EQ(outcome.code, 1);
  const Json warnings = Json::parse(outcome.output)["environment_warnings"];
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].get<std::string>().find("did you mean HORING_SLOTS?"), std::string::npos) << warnings;
  EXPECT_NE(runInfo({"--ranks", "0"}, {"HORING_SLOT=3"}).output.find("HORING_SLOTS?"), std::string::npos);
}

TEST(HoringInfo, TriesTheTransports) {
  const Outcome outcome = runInfo({"--json", "--ranks", "3"}, {"HORING_SOCKET_IFNAME=lo"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json json = Json::parse(outcome.output);
  for (const char* name : {"shm", "socket"}) {
    const Json transport = named(json["transports"], name);
    EXPECT_EQ(transport["usable"], true) << transport;
    EXPECT_GT(transport["communicator_bytes_per_rank"], 1000) << transport;
  }
}

TEST(HoringInfo, SaysWhyATransportIsNotUsable) {
  const Outcome outcome = runInfo({"--json"}, {"HORING_SHM_DIR=/nonexistent"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json shm = named(Json::parse(outcome.output)["transports"], "shm");
  EXPECT_EQ(shm["usable"], false);
  EXPECT_NE(shm["error"].get<std::string>().find("/nonexistent"), std::string::npos) << shm;
}

TEST(HoringInfo, EndsWithOneWhenTheEnvironmentIsWrongButStillShowsIt) {
  const Outcome outcome = runInfo({}, {"HORING_ALGO=bogus"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.output.find("HORING_ALGO=bogus"), std::string::npos);
  EXPECT_NE(outcome.output.find("HORING_SHM_DIR"), std::string::npos);
}

TEST(HoringInfo, IsReadableForPeople) {
  const Outcome outcome = runInfo({"--ranks", "0"});
  ASSERT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output.find("horing 0.1.0"), 0u);
  for (const ConfigVariable& variable : configVariables())
    EXPECT_NE(outcome.output.find(variable.help), std::string::npos) << variable.name;
}

TEST(HoringInfo, RefusesAWrongCommandLine) {
  EXPECT_EQ(runInfo({"--bogus"}).code, 2);
  EXPECT_EQ(runInfo({"--ranks", "1000"}).code, 2);
  EXPECT_EQ(runInfo({"--help"}).code, 0);
}

TEST(HoringInfo, PrintsATableThatItTakesBack) {
  const Outcome built_in = runInfo({"selection"});
  ASSERT_EQ(built_in.code, 0) << built_in.errors;
  EXPECT_NE(built_in.output.find("ho_ring"), std::string::npos);
  const std::string path = testing::TempDir() + "horing_info_selection.txt";
  std::ofstream(path) << built_in.output;
  EXPECT_EQ(runInfo({"selection"}, {"HORING_SELECTION_FILE=" + path}).output, built_in.output);
  std::ofstream(path) << "* * * * rong\n";
  const Outcome wrong = runInfo({"selection"}, {"HORING_SELECTION_FILE=" + path});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.errors.find("line 1: expected an algorithm"), std::string::npos) << wrong.errors;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace horing::test
