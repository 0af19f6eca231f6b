// What a job leaves for later: records of its last operations when it fails, and timelines.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "../../sanitizer.h"
#include "../../temporary_folder.h"
#include "job.h"

namespace horing::test {
namespace {

using nlohmann::json;

class Records : public testing::Test {
 protected:
  std::string variable(const std::string& name) const { return name + "=" + folder_; }
  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  Outcome trace(const std::vector<std::string>& paths) const {
    std::vector<std::string> command = {HORING_INFO_PROGRAM, "trace"};
    command.insert(command.end(), paths.begin(), paths.end());
    return runProgram(command);
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

// Also the rank that never called leaves one, though it computes.
TEST_F(Records, TellWhoNeverCalled) {
  const JobOutcome outcome =
      runWithLateCaller({.words = {"HORING_TIMEOUT_MS=" + std::to_string(kShortDeadlineMs),
                                   variable("HORING_FLIGHT_DIR"), "rounds=9", "late_round=7"}},
                        2);
  ASSERT_EQ(files().size(), 4u) << outcome.everything;
  const Outcome merged = trace(files());
  EXPECT_EQ(merged.code, 0) << merged.errors;
  EXPECT_NE(merged.output.find("verdict: rank 2 never called all_reduce #7; ranks 0, 1, 3 have waited for "),
            std::string::npos)
      << merged.output;
  EXPECT_NE(merged.output.find("ranks 0-3 reported: timeout: rank 2 never called all_reduce #7"),
            std::string::npos)
      << merged.output;
  EXPECT_NE(merged.output.find("): completed all_reduce #6 (262144 x int32, sum), and called no more"),
            std::string::npos)
      << merged.output;
  EXPECT_NE(merged.output.find("): in all_reduce #7 (262144 x int32, sum), lane "), std::string::npos)
      << merged.output;
}

// As when they were ended while they wrote. What rank 1 reported says more than the file that is left.
TEST_F(Records, BlameNoRankForAFileThatIsMissingOrCutShort) {
  const JobOutcome outcome =
      runWithLateCaller({.words = {"HORING_TIMEOUT_MS=" + std::to_string(kShortDeadlineMs),
                                   variable("HORING_FLIGHT_DIR"), "rounds=9", "late_round=7"}},
                        2);
  std::vector<std::string> paths;
  for (const std::string& path : files()) {
    if (json::parse(std::ifstream(path)).at("rank") == 1)
      paths.push_back(path);
    else if (paths.empty() || paths.size() == 1)
      paths.push_back(folder_ + "/empty.json");
  }
  std::ofstream(folder_ + "/empty.json").flush();
  ASSERT_GE(paths.size(), 2u) << outcome.everything;
  const Outcome merged = trace(paths);
  EXPECT_EQ(merged.code, 0) << merged.errors;
  EXPECT_TRUE(merged.output.starts_with("verdict: timeout: rank 2 never called all_reduce #7"))
      << merged.output;
  EXPECT_NE(merged.output.find("(reported by rank 1)\n"), std::string::npos) << merged.output;
  EXPECT_NE(merged.output.find("no file of ranks 0, 2, 3\n"), std::string::npos) << merged.output;
  EXPECT_NE(merged.output.find("empty.json is no flight record of horing"), std::string::npos)
      << merged.output;
}

TEST_F(Records, TellWhoDisagreed) {
  const JobOutcome outcome =
      runJob({.ranks = 3, .words = {variable("HORING_FLIGHT_DIR"), "1:collective=all_gather"}});
  ASSERT_EQ(files().size(), 3u) << outcome.everything;
  const Outcome merged = trace(files());
  EXPECT_NE(merged.output.find("verdict: ranks disagree about call #0: rank 1 called all_gather"),
            std::string::npos)
      << merged.output;
}

// The heartbeat ends the waiting; the deadline is far away.
TEST_F(Records, NameTheLimitThatEndedTheWaitForAStoppedRank) {
  Program job(jobCommand({.ranks = 2,
                          .words = {variable("HORING_FLIGHT_DIR"), "rounds=100000000", "count=1000",
                                    "1:signal_after_ms=300", "1:signal=" + std::to_string(SIGSTOP)}}));
  ASSERT_TRUE(eventually([&] { return countOf(job, "end") == 1; })) << job.output() << job.errors();
  ASSERT_EQ(files().size(), 1u) << job.output();
  json one = json::parse(std::ifstream(files()[0]));
  one["begun"] = one["ended"].get<uint64_t>() + 1;  // also where the rank was stopped between two calls
  std::ofstream(files()[0]) << one;
  const Outcome merged = trace(files());
  EXPECT_NE(merged.output.find("; rank 0 has waited for "), std::string::npos) << merged.output;
  EXPECT_NE(merged.output.find(" ms (HORING_HEARTBEAT_MS)\n"), std::string::npos) << merged.output;
  EXPECT_EQ(merged.output.find("HORING_TIMEOUT_MS"), std::string::npos) << merged.output;
}

TEST_F(Records, TellOfAKilledRankByTheFileThatIsMissing) {
  runJob({.ranks = 3, .words = {variable("HORING_FLIGHT_DIR"), "rounds=1000000", "2:signal_after_ms=300"}});
  ASSERT_EQ(files().size(), 2u);
  // The news of the death reaches the others at a random point: usually in a call, sometimes between two.
  const std::string in_a_call = "verdict: rank 2 did not answer about all_reduce #";
  const std::string between_calls =
      "verdict: rank 2 left no file: killed, stopped, or cut off from the network; the others completed "
      "their ";
  const Outcome merged = trace(files());
  EXPECT_TRUE(merged.output.starts_with(in_a_call) || merged.output.starts_with(between_calls))
      << merged.output;
  EXPECT_NE(merged.output.find("no file of rank 2\n"), std::string::npos) << merged.output;
  EXPECT_EQ(merged.output.find("HORING_TIMEOUT_MS"), std::string::npos) << merged.output;
  for (const std::string& path : files()) {
    json one = json::parse(std::ifstream(path));
    one["begun"] = one["ended"] = 6;
    one["waiting"] = nullptr;
    std::ofstream(path) << one;
  }
  const Outcome calm = trace(files());
  EXPECT_TRUE(calm.output.starts_with(between_calls + "6 calls and were in none\n")) << calm.output;
}

// In a ring of messages, each waits for the one that never called.
TEST_F(Records, TellWhoNeverSent) {
  const JobOutcome outcome = runWithLateCaller(
      {.words = {"HORING_TIMEOUT_MS=" + std::to_string(kShortDeadlineMs), variable("HORING_FLIGHT_DIR"),
                 "collective=exchange", "rounds=12", "count=1000", "late_round=7"}},
      2);
  ASSERT_EQ(files().size(), 4u) << outcome.everything;
  const Outcome merged = trace(files());
  EXPECT_EQ(merged.code, 0) << merged.errors;
  const std::string verdict = "verdict on messages: rank 3 has waited ",
                    why =
                        " ms in recv of 4000 bytes from rank 2 (#7), and rank 2 has not begun the send for "
                        "it\n";
  for (const std::string& part : {verdict, why})
    EXPECT_NE(merged.output.find(part), std::string::npos) << merged.output;
  EXPECT_EQ(merged.output.find("verdict on messages", merged.output.find(why)), std::string::npos)
      << merged.output;
  EXPECT_NE(merged.output.find("): in recv of 4000 bytes from rank 2 (#7) for "), std::string::npos)
      << merged.output;
  for (const std::string& path : files()) {
    const json record = json::parse(std::ifstream(path));
    EXPECT_EQ(record.at("launches").at("begun"), 0) << "they count as calls do";
    for (const json& message : record.at("messages")) {
      EXPECT_TRUE(message.at("call") == "send" || message.at("call") == "recv") << message;
      EXPECT_EQ(message.at("type"), "int32");
      EXPECT_EQ(message.at("bytes"), 4000);
      EXPECT_TRUE(message.at("number") >= 7 || message.at("state") == "complete") << message;
    }
  }
}

TEST_F(Records, AreNotMergedFromDifferentJobsOrBrokenFiles) {
  runJob({.ranks = 2, .words = {variable("HORING_FLIGHT_DIR"), "1:type=0"}});
  std::vector<std::string> paths = files();
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(trace({paths[0], paths[0]}).code, 2);
  EXPECT_EQ(trace({folder_ + "/none.json"}).code, 2);
  json one = json::parse(std::ifstream(paths[0]));
  one["job"] = "another";
  std::ofstream(folder_ + "/other.json") << one;
  const Outcome mixed = trace({folder_ + "/other.json", paths[1]});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.errors.find("another"), std::string::npos) << mixed.errors;
  for (const char* key : {"rank", "ranks", "operations", "messages", "begun", "waiting"}) {
    json broken = json::parse(std::ifstream(paths[0]));
    broken[key] = "x";
    std::ofstream(folder_ + "/broken.json") << broken;
    EXPECT_EQ(trace({folder_ + "/broken.json"}).code, 2) << key;
  }
  json of_before = json::parse(std::ifstream(paths[0]));
  of_before["horing_flight"] = 2;
  std::ofstream(folder_ + "/before.json") << of_before;
  const Outcome refused = trace({folder_ + "/before.json"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.errors.find("has version 2, and this horing-info reads version 3"), std::string::npos)
      << refused.errors;
}

TEST_F(Records, AreNoneOfAJobThatWentWell) {
  runJob({.ranks = 2, .words = {variable("HORING_FLIGHT_DIR"), "rounds=3"}});
  EXPECT_TRUE(files().empty());
}

TEST_F(Records, OfTimeShowCallsAndTheStepsOfTheirLanes) {
  const JobOutcome outcome = runJob({.ranks = 3,
                                     .words = {variable("HORING_TRACE"), "rounds=5", "HORING_ALGO=ring",
                                               "1:call_late_ms=500", "late_round=3"}});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  const std::vector<std::string> paths = files();
  ASSERT_EQ(paths.size(), 3u) << outcome.everything;
  int all_slept = 0;
  for (const std::string& path : paths) {
    const json events = json::parse(std::ifstream(path));
    std::map<int, std::string> tracks;
    int slept = 0;
    std::vector<std::pair<double, double>> call_times, step_times;  // begin and end, in microseconds
    for (const json& event : events) {
      if (event.at("ph") == "M") {
        if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
        continue;
      }
      const std::string name = event.at("name");
      const double begun = event.at("ts"), ended = begun + event.at("dur").get<double>();
      if (name.starts_with("all_reduce #")) call_times.emplace_back(begun, ended);
      if (name.starts_with("step ")) step_times.emplace_back(begun, ended);
      slept += name == "asleep";
    }
    EXPECT_EQ(call_times.size(), 5u);
    constexpr double kRounding = 1;  // a double holds the time of day to a quarter of a microsecond
    for (const auto& step : step_times)
      EXPECT_TRUE(std::any_of(call_times.begin(), call_times.end(),
                              [&step](const auto& call) {
                                return call.first <= step.first + kRounding && step.first <= step.second &&
                                       step.second <= call.second + kRounding;
                              }))
          << "a step from " << step.first << " to " << step.second << " in no call";
    all_slept += slept;
    EXPECT_GE(step_times.size(), 5u * 4) << "a ring of three ranks has five steps";
    EXPECT_EQ(tracks[0], "calls");
    EXPECT_EQ(tracks[2], "lane 0");
  }
  EXPECT_GE(all_slept, 1) << "rank 1 let the others wait";
}

// When the job begins, and not again at its end; it goes on.
TEST_F(Records, ThatCannotBeWrittenAreToldOfAtOnce) {
  const std::string folder = folder_ + "/none";
  for (const auto& [variable, consequence] :
       {std::pair{"HORING_TRACE", "goes on without timelines"},
        std::pair{"HORING_FLIGHT_DIR", "a failure will leave no record"}}) {
    Program job(jobCommand({.ranks = 2,
                            .words = {variable + ("=" + folder), "rounds=2", "0:call_late_ms=3000",
                                      "late_round=1", "1:" + (variable + std::string("="))}}));
    const std::string warning = variable + (": cannot write " + folder) + "/horing-";
    ASSERT_TRUE(eventually([&] { return job.errors().find(warning) != std::string::npos; })) << job.errors();
    EXPECT_EQ(countOf(job, "end"), 0) << "only at the end";
    EXPECT_EQ(job.wait(), 0) << job.errors();
    EXPECT_EQ(job.errors().find(warning, job.errors().find(warning) + 1), std::string::npos) << job.errors();
    EXPECT_NE(job.errors().find(consequence), std::string::npos) << job.errors();
  }
}

}  // namespace
}  // namespace horing::test
