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
  EXPECT_TRUE(json["results"][0]["in_place"]["nwrong"].is_null());
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

std::vector<std::string> keysOf(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// As nccl-tests of July 2026 writes them.
TEST(ReportJson, HasTheKeysOfNcclTestsAndNoOthers) {
  using Keys = std::vector<std::string>;
  RunReport report;
  report.places = {{0, 42, "host"}};
  Row row;
  row.in_place = Measurement();
  const IterationTimes times{{1, 2}, {{1, 2}, {1, 1}}};
  row.out_of_place.iterations = row.in_place->iterations = times;
  report.rows.push_back(row);
  const auto json = nlohmann::ordered_json::parse(reportJson(report, Options()));
  EXPECT_EQ(keysOf(json), (Keys{"version", "start_time", "args", "env", "nccl_version", "config", "results",
                                "out_of_bounds", "average_bus_bandwidth", "errors", "end_time"}));
  EXPECT_EQ(keysOf(json["config"]),
            (Keys{"nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_bytes", "warmup_iters",
                  "iterations", "aggregated_iterations", "validation", "graph", "blocking_collectives",
                  "per_iter_timing", "per_iter_skip", "parallel_init", "devices"}));
  EXPECT_EQ(keysOf(json["config"]["devices"][0]),
            (Keys{"rank", "group", "pid", "hostname", "device", "device_hex", "device_info"}));
  const auto& result = json["results"][0];
  EXPECT_EQ(keysOf(result),
            (Keys{"size", "count", "type", "redop", "root", "out_of_place", "out_of_place_per_iter",
                  "in_place", "in_place_per_iter", "actual_iterations", "experiment_name"}));
  for (const char* half : {"out_of_place", "in_place"})
    EXPECT_EQ(keysOf(result[half]), (Keys{"time", "alg_bw", "bus_bw", "nwrong"}));
  for (const char* half : {"out_of_place_per_iter", "in_place_per_iter"})
    EXPECT_EQ(keysOf(result[half]),
              (Keys{"skipped_iterations", "min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us",
                    "stdev_us", "cv_pct", "times_us", "per_process_max_times_us"}));
  EXPECT_EQ(keysOf(json["out_of_bounds"]), (Keys{"count", "okay"}));
  EXPECT_EQ(keysOf(json["average_bus_bandwidth"]), (Keys{"bandwidth", "okay"}));
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
