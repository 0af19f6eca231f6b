// The whole of a *_perf program, over a library that computes collectives in the plainest way.
#include "perf/driver.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "perf/options.h"
#include "threads_library.h"

namespace horing::perf {
namespace {

struct Outcome {
  int exit_code;
  std::vector<std::vector<std::string>> rows;
  std::string text;
};

Outcome runPerf(Collective collective, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "some_perf");
  ::testing::internal::CaptureStdout();
  Outcome outcome;
  outcome.exit_code = perfMain(collective, "some_perf", static_cast<int>(arguments.size()), arguments.data());
  outcome.text = ::testing::internal::GetCapturedStdout();
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (!words.empty() && words[0][0] != '#') outcome.rows.push_back(words);
  }
  return outcome;
}

class Driver : public ::testing::Test {
 protected:
  void TearDown() override {
    testing::faults().corrupt = false;
    testing::faults().fail_collectives = false;
    unsetenv("HORING_TESTS_MIN_BW");
    unsetenv("HORING_TESTS_SPLIT");
  }
};

TEST_F(Driver, MeasuresAndChecksEveryTypeAndOperation) {
  for (const Collective c : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    const Outcome o =
        runPerf(c, {"-t", "3", "-b", "0", "-e", "3K", "-i", "1536", "-n", "2", "-d", "all", "-o", "all"});
    ASSERT_EQ(o.exit_code, kExitOk) << collectiveName(c) << '\n' << o.text;
    const size_t ops = c == Collective::kAllGather ? 1 : 5;
    ASSERT_EQ(o.rows.size(), 12 * ops * 3);
    for (const std::vector<std::string>& row : o.rows) {
      ASSERT_EQ(row.size(), 13u);
      EXPECT_EQ(row[8], "0") << collectiveName(c) << ' ' << row[2] << ' ' << row[3];
      EXPECT_EQ(row[12], "0") << collectiveName(c) << ' ' << row[2] << ' ' << row[3];
    }
    EXPECT_NE(o.text.find("# Out of bounds values : 0 OK"), std::string::npos);
  }
}

TEST_F(Driver, DoublesSizesByAFactorAndHonoursUnalign) {
  const Outcome o = runPerf(Collective::kAllReduce,
                            {"--nthreads=2", "-b8", "-e", "1K", "-f", "2", "-n1", "-u", "3", "-m", "2"});
  ASSERT_EQ(o.exit_code, kExitOk) << o.text;
  ASSERT_EQ(o.rows.size(), 8u);
  EXPECT_EQ(o.rows[0][0], "8");
  EXPECT_EQ(o.rows[7][0], "1024");
  EXPECT_EQ(o.rows[7][1], "256");
}

TEST_F(Driver, EndsWithSevenOnWrongData) {
  testing::faults().corrupt = true;
  const Outcome o = runPerf(Collective::kAllReduce, {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1"});
  EXPECT_EQ(o.exit_code, kExitWrongData);
  ASSERT_EQ(o.rows.size(), 1u);
  EXPECT_EQ(o.rows[0][8], "1");
  EXPECT_NE(o.text.find("# Out of bounds values : 2 FAILED"), std::string::npos);
}

TEST_F(Driver, DoesNotCheckWhenToldNotTo) {
  testing::faults().corrupt = true;
  const Outcome o =
      runPerf(Collective::kAllReduce, {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1", "-c", "0"});
  EXPECT_EQ(o.exit_code, kExitOk);
  ASSERT_EQ(o.rows.size(), 1u);
  EXPECT_EQ(o.rows[0][8], "N/A");
}

TEST_F(Driver, EndsWithSevenBelowTheBandwidthAskedFor) {
  setenv("HORING_TESTS_MIN_BW", "1e9", 1);
  const Outcome o = runPerf(Collective::kAllReduce, {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1"});
  EXPECT_EQ(o.exit_code, kExitWrongData);
  EXPECT_NE(o.text.find("FAILED"), std::string::npos);
}

TEST_F(Driver, EndsWithThreeAndTheLibrarysWordsWhenItFails) {
  testing::faults().fail_collectives = true;
  const Outcome o = runPerf(Collective::kAllGather, {"-t", "2", "-b", "8K", "-e", "8K", "-n", "1"});
  EXPECT_EQ(o.exit_code, kExitLibrary);
  EXPECT_NE(o.text.find("rank 1 is gone, as the test wished"), std::string::npos);
  EXPECT_NE(o.text.find("Test failure"), std::string::npos);
}

TEST_F(Driver, RefusesWhatItCannotDoByName) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"-g", "2"}, "--ngpus"},      {{"-G", "1"}, "--cudagraph"}, {{"-R", "1"}, "--local_register"},
      {{"-o", "mulsum"}, "mulsum"},  {{"-o", "xor"}, "xor"},       {{"-d", "int16"}, "int16"},
      {{"--bogus", "1"}, "bogus"},   {{"-t", "0"}, "nthreads"},    {{"-n", "many"}, "iters"},
      {{"-J", "out.txt"}, "out.txt"}};
  for (const auto& [arguments, named] : cases) {
    ::testing::internal::CaptureStderr();
    const Outcome o = runPerf(Collective::kAllReduce, arguments);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(o.exit_code, kExitInvalidUsage) << arguments[0] << ' ' << arguments[1];
    EXPECT_NE(said.find(named), std::string::npos) << said;
  }
}

TEST_F(Driver, RefusesSizesThatAreNone) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"-b", "8Q"}, {"-b", "2M", "-e", "1M"}, {"-i", "0"}, {"-b", "0", "-f", "2"}})
    EXPECT_EQ(runPerf(Collective::kAllReduce, arguments).exit_code, kExitBadSize) << arguments[1];
}

TEST_F(Driver, RefusesAnEnvironmentVariableItWouldIgnore) {
  setenv("HORING_TESTS_SPLIT", "MOD 2", 1);
  EXPECT_EQ(runPerf(Collective::kAllReduce, {"-b", "8", "-e", "8"}).exit_code, kExitInvalidUsage);
}

TEST_F(Driver, ShowsItsOptions) {
  const Outcome o = runPerf(Collective::kAllReduce, {"--help"});
  EXPECT_EQ(o.exit_code, kExitOk);
  for (const char* option :
       {"--nthreads", "--minbytes", "--stepfactor", "--per_iter_timing", "--output_file", "--cudagraph"})
    EXPECT_NE(o.text.find(option), std::string::npos) << option;
}

TEST_F(Driver, WritesWhatItMeasuredToANewFile) {
  const std::string name = ::testing::TempDir() + "/driver_" + std::to_string(getpid()) + ".json";
  setenv("HORING_RUN_SECRET", "hunter2", 1);
  const Outcome o = runPerf(Collective::kReduceScatter, {"-t", "2", "-b", "1K", "-e", "2K", "-f", "2", "-n",
                                                         "5", "-I", "1", "-K", "1", "-J", name.c_str()});
  unsetenv("HORING_RUN_SECRET");
  ASSERT_EQ(o.exit_code, kExitOk) << o.text;
  std::ifstream in(name);
  std::ostringstream content;
  content << in.rdbuf();
  std::filesystem::remove(name);
  EXPECT_EQ(content.str().find("hunter2"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(content.str());
  ASSERT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][1]["size"], 2048);
  EXPECT_EQ(json["results"][1]["out_of_place_per_iter"]["times_us"].size(), 4u);
  EXPECT_EQ(json["results"][1]["in_place_per_iter"]["per_process_max_times_us"].size(), 2u);
  EXPECT_EQ(json["config"]["devices"].size(), 2u);
  EXPECT_EQ(json["out_of_bounds"]["okay"], "true");
  EXPECT_TRUE(json["errors"].empty());
}

}  // namespace
}  // namespace horing::perf
