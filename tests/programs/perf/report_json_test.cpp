#include "perf/report_json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace horing::perf {
namespace {

TEST(ShownEnvironment, LeavesOutWhatDoesNotConcernTheRun) {
  const char* environment[] = {
      "AWS_SECRET_ACCESS_KEY=abc", "PATH=/bin", "HORING_ALGO=ring", "RANK=3", "HOME=/root", nullptr};
  const auto shown = shownEnvironment(environment);
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0], std::make_pair(std::string("HORING_ALGO"), std::string("ring")));
  EXPECT_EQ(shown[1], std::make_pair(std::string("RANK"), std::string("3")));
}

TEST(ShownEnvironment, NeverShowsASecret) {
  const char* environment[] = {"HORING_RUN_SECRET=hunter2", "HORING_KEY_FILE=/hunter2",
                               "HORING_RUN_TOKEN=hunter2", "HORING_BROKEN", nullptr};
  const auto shown = shownEnvironment(environment);
  ASSERT_EQ(shown.size(), 3u);
  for (const auto& [name, value] : shown) EXPECT_EQ(value, "<redacted>") << name;
}

TEST(ReportJson, IsValidWhateverBytesAnArgumentHolds) {
  RunReport report;
  report.arguments = {"all_reduce_perf", "--x=\xff\xfe\"\\\n"};
  report.places = {{0, 42, "host"}};
  Row row;
  row.bytes = 8;
  row.out_of_place.wrong = 0;
  row.in_place = Measurement();
  report.rows.push_back(row);
  row.root = 3;
  row.in_place.reset();
  row.out_of_place.time_us = 8;
  row.predicted = {2, "latency: of a link"};
  report.rows.push_back(row);
  report.totals.wrong = 2;
  report.waits = {{}, {{0, 1.5, 0.25}}};
  const nlohmann::json json = nlohmann::json::parse(reportJson(report, Options()));
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["config"]["devices"][0]["pid"], 42);
  EXPECT_EQ(json["results"][0]["out_of_place"]["nwrong"], 0);
  EXPECT_EQ(json["results"][0]["in_place"]["nwrong"], "N/A");
  EXPECT_EQ(json["results"][0]["root"], "-1");
  EXPECT_EQ(json["results"][1]["root"], "3");
  EXPECT_TRUE(json["results"][1]["in_place"].is_null());
  EXPECT_EQ(json["results"][1]["experiment_name"], "");
  EXPECT_FALSE(json["results"][0].contains("predicted"));
  EXPECT_EQ(json["results"][1]["predicted"]["time"], 2);
  EXPECT_EQ(json["results"][1]["predicted"]["reached_pct"], 25);
  EXPECT_EQ(json["results"][1]["predicted"]["bounded_by"], "latency: of a link");
  ASSERT_EQ(json["waits"].size(), 1u);
  EXPECT_EQ(json["waits"][0]["rank"], 1);
  EXPECT_EQ(json["waits"][0]["for_rank"], 0);
  EXPECT_EQ(json["waits"][0]["data_s"], 1.5);
  EXPECT_EQ(json["waits"][0]["room_s"], 0.25);
  EXPECT_EQ(json["out_of_bounds"]["okay"], "false");
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "unchecked");
}

TEST(CreateNewFile, KeepsWhatExists) {
  const std::string name = ::testing::TempDir() + "/create_new_file_" + std::to_string(getpid()) + ".json";
  for (const char* text : {"first", "second", "third"}) {
    Result<Fd> file = createNewFile(name);
    ASSERT_TRUE(file.ok()) << file.status().toString();
    ASSERT_TRUE(writeAll(file.value(), text).ok());
  }
  const std::pair<std::string, const char*> wanted[] = {
      {name, "first"}, {name + ".0", "second"}, {name + ".1", "third"}};
  for (const auto& [path, text] : wanted) {
    std::ifstream in(path);
    std::string content;
    in >> content;
    EXPECT_EQ(content, text) << path;
    std::filesystem::remove(path);
  }
}

TEST(CreateNewFile, SaysWhyItCannot) {
  const Result<Fd> file = createNewFile("/proc/nonexistent/x.json");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("/proc/nonexistent/x.json: No such file"), std::string::npos);
}

}  // namespace
}  // namespace horing::perf
