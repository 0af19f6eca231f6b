// The whole of a *_perf program, over a library that computes collectives in the plainest way.
#include "perf/driver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "perf/collectives.h"
#include "perf/options.h"
#include "threads_library.h"

namespace horing::perf {
namespace {

struct Outcome {
  int exit_code;
  std::vector<std::vector<std::string>> rows;
  std::string text;
};

Outcome runPerf(const char* name, std::vector<const char*> arguments) {
  const std::string program = std::string(name) + "_perf";
  // The library below is one of threads on the host.
  arguments.insert(arguments.begin(), {program.c_str(), "--buffers", "host"});
  ::testing::internal::CaptureStdout();
  Outcome outcome;
  outcome.exit_code = perfMain(name, static_cast<int>(arguments.size()), arguments.data());
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
    for (std::atomic<bool>* fault :
         {&testing::faults().corrupt, &testing::faults().fail_collectives, &testing::faults().other_root,
          &testing::faults().touch_others, &testing::faults().shift})
      *fault = false;
    unsetenv("HORING_TESTS_MIN_BW");
    unsetenv("HORING_TESTS_SPLIT");
  }
};

void expectGood(const CollectiveTest& test, const Outcome& o, size_t rows) {
  ASSERT_EQ(o.exit_code, kExitOk) << test.name << '\n' << o.text;
  ASSERT_EQ(o.rows.size(), rows) << test.name;
  for (const std::vector<std::string>& row : o.rows) {
    ASSERT_EQ(row.size(), 13u);
    EXPECT_EQ(row[8], "0") << test.name << ' ' << row[2] << ' ' << row[3] << ' ' << row[4];
    EXPECT_EQ(row[12], test.in_place ? "0" : "N/A") << test.name << ' ' << row[2] << ' ' << row[3];
  }
  EXPECT_NE(o.text.find("# Out of bounds values : 0 OK"), std::string::npos);
}

TEST_F(Driver, MeasuresAndChecksEveryTypeAndOperation) {
  for (const CollectiveTest& test : collectiveTests()) {
    const Outcome o = runPerf(test.name, {"-t", "4", "-b", "0", "-e", "4K", "-i", "2K", "-n", "1", "-w", "0",
                                          "-d", "all", "-o", "all", "-r", "2"});
    expectGood(test, o, (test.reduces ? 12u * 5 + 6 * 3 : 12u) * 3);
  }
}

TEST_F(Driver, TakesEachRankAsRootInTurn) {
  for (const CollectiveTest& test : collectiveTests()) {
    const Outcome o =
        runPerf(test.name, {"-t", "4", "-b", "64", "-e", "128", "-f", "2", "-n", "1", "-r", "-1"});
    expectGood(test, o, test.rooted() ? 8 : 2);
    for (size_t i = 0; i < o.rows.size(); ++i)
      EXPECT_EQ(o.rows[i][4], test.rooted() ? std::to_string(i / 2) : "-1") << test.name;
  }
  const Outcome one = runPerf("broadcast", {"-t", "3", "-b", "8", "-e", "8", "-n", "1", "-r", "2"});
  ASSERT_EQ(one.rows.size(), 1u) << one.text;
  EXPECT_EQ(one.rows[0][4], "2");
}

TEST_F(Driver, RefusesARootThatIsNoRank) {
  ::testing::internal::CaptureStderr();
  const Outcome o = runPerf("reduce", {"-t", "3", "-b", "8", "-e", "8", "-n", "1", "-r", "3"});
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("--root 3: there are ranks 0 .. 2 only"),
            std::string::npos);
  EXPECT_EQ(o.exit_code, kExitInvalidUsage);
  EXPECT_TRUE(o.rows.empty());
}

TEST_F(Driver, RefusesANumberOfRanksThatIsNoCube) {
  ::testing::internal::CaptureStderr();
  const Outcome o = runPerf("hypercube", {"-t", "3", "-b", "64", "-e", "64", "-n", "1"});
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("3 ranks: expected a power of two"),
            std::string::npos);
  EXPECT_EQ(o.exit_code, kExitInvalidUsage);
}

// Runs alltoallv_perf with three ranks and a matrix; the text is its stderr when it refuses.
Outcome runMatrix(const char* matrix, const char* min_bytes, const char* max_bytes) {
  const std::string name = ::testing::TempDir() + "/matrix_" + std::to_string(getpid());
  std::ofstream(name) << matrix;
  setenv("HORING_TESTS_ALLTOALLV_MATRIX_FILE", name.c_str(), 1);
  setenv("HORING_TESTS_ALLTOALLV_MATRIX_SCALE", "16", 1);
  ::testing::internal::CaptureStderr();
  Outcome o = runPerf("alltoallv", {"-t", "3", "-b", min_bytes, "-e", max_bytes, "-n", "1", "-d", "all"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (o.exit_code != kExitOk) o.text = said;
  unsetenv("HORING_TESTS_ALLTOALLV_MATRIX_FILE");
  unsetenv("HORING_TESTS_ALLTOALLV_MATRIX_SCALE");
  std::filesystem::remove(name);
  return o;
}

TEST_F(Driver, ExchangesWhatAMatrixSays) {
  const Outcome o = runMatrix("1 2 0\n\n 40 0 5\n0 0.5 7 \n", "1K", "1K");
  ASSERT_EQ(o.exit_code, kExitOk) << o.text;
  ASSERT_EQ(o.rows.size(), 12u);
  for (const std::vector<std::string>& row : o.rows) {
    EXPECT_EQ(row[0], std::to_string(45 * 16));  // rank 1 sends most
    EXPECT_EQ(row[8], "0") << row[2];
  }
}

TEST_F(Driver, RefusesAMatrixThatDoesNotFit) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 2\n3 4\n", "the matrix is for 2 ranks, there are 3"},
      {"1 2 3\n4 5 6\n", "found 2 rows of 3"},
      {"1 2 3\n4 5\n6 7 8\n", "row 1 has 2 numbers"},
      {"1 2 3\n4 -5 6\n7 8 9\n", "'-5' is not a number"},
      {"1 2 3\n4 nan 6\n7 8 9\n", "'nan' is not a number"},
      {"", "found 0 rows"},
      {"65 0 0\n0 0 0\n0 0 0\n", "at least the 1040 bytes"}};
  for (const auto& [matrix, said] : cases) {
    const Outcome o = runMatrix(matrix, "1K", "1K");
    EXPECT_EQ(o.exit_code, kExitInvalidUsage) << matrix;
    EXPECT_NE(o.text.find(said), std::string::npos) << o.text;
  }
  EXPECT_EQ(runMatrix("1 2 3\n4 5 6\n7 8 9\n", "1K", "2K").exit_code, kExitInvalidUsage);
}

// The number of wrong elements in one run of one size with four ranks, out of place and, where possible, in place.
void expectFound(const CollectiveTest& test, const char* fault) {
  const Outcome o = runPerf(test.name, {"-t", "4", "-b", "32K", "-e", "32K", "-n", "1", "-r", "1"});
  EXPECT_EQ(o.exit_code, kExitWrongData) << test.name << ": " << fault;
  ASSERT_EQ(o.rows.size(), 1u) << o.text;
  EXPECT_NE(o.rows[0][8], "0") << test.name << ": " << fault;
  EXPECT_NE(o.rows[0][12], "0") << test.name << ": " << fault;
}

// Wrong elements if every result has one. In a hypercube a rank of four has one in its own first message, gets that of its second
// partner, and one more.
std::string wrongOfFour(const CollectiveTest& test) {
  if (std::string(test.name) == "hypercube") return "12";
  return test.root == Root::kReceives ? "1" : "4";
}

TEST_F(Driver, CountsOneWrongElementOfEachThatReceives) {
  testing::faults().corrupt = true;
  for (const CollectiveTest& test : collectiveTests()) {
    const Outcome o = runPerf(test.name, {"-t", "4", "-b", "32K", "-e", "32K", "-n", "1", "-r", "1"});
    EXPECT_EQ(o.exit_code, kExitWrongData) << test.name;
    ASSERT_EQ(o.rows.size(), 1u) << o.text;
    EXPECT_EQ(o.rows[0][8], wrongOfFour(test)) << test.name;
    EXPECT_EQ(o.rows[0][12], !test.in_place ? "N/A" : o.rows[0][8]) << test.name;
  }
}

TEST_F(Driver, FindsThatAnotherRankPlayedTheRoot) {
  testing::faults().other_root = true;
  for (const CollectiveTest& test : collectiveTests())
    if (test.rooted()) expectFound(test, "the next rank is root");
}

TEST_F(Driver, FindsThatABufferWasTouchedThatReceivesNothing) {
  testing::faults().touch_others = true;
  for (const CollectiveTest& test : collectiveTests())
    if (test.root == Root::kReceives) expectFound(test, "all ranks receive");
}

TEST_F(Driver, FindsDataInTheWrongPlace) {
  testing::faults().shift = true;
  for (const CollectiveTest& test : collectiveTests()) expectFound(test, "results begin 16 bytes late");
}

TEST_F(Driver, DoublesSizesByAFactorAndHonoursUnalign) {
  const Outcome o =
      runPerf("all_reduce", {"--nthreads=2", "-b8", "-e", "1K", "-f", "2", "-n1", "-u", "3", "-m", "2"});
  ASSERT_EQ(o.exit_code, kExitOk) << o.text;
  ASSERT_EQ(o.rows.size(), 8u);
  EXPECT_EQ(o.rows[0][0], "8");
  EXPECT_EQ(o.rows[7][0], "1024");
  EXPECT_EQ(o.rows[7][1], "256");
}

TEST_F(Driver, EndsWithSevenOnWrongData) {
  testing::faults().corrupt = true;
  const Outcome o = runPerf("all_reduce", {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1"});
  EXPECT_EQ(o.exit_code, kExitWrongData);
  ASSERT_EQ(o.rows.size(), 1u);
  EXPECT_EQ(o.rows[0][8], "2");
  EXPECT_NE(o.text.find("# Out of bounds values : 4 FAILED"), std::string::npos);
}

// Before the calls out of place and before those in place; what is reported does not contain it.
TEST_F(Driver, RestsBeforeWhatItTimes) {
  const auto begun = std::chrono::steady_clock::now();
  const Outcome o = runPerf("all_reduce", {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1", "--rest", "300"});
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(600));
  ASSERT_EQ(o.exit_code, kExitOk) << o.text;
  ASSERT_EQ(o.rows.size(), 1u);
  EXPECT_LT(std::stod(o.rows[0][5]), 300'000) << o.text;
}

TEST_F(Driver, DoesNotCheckWhenToldNotTo) {
  testing::faults().corrupt = true;
  const Outcome o = runPerf("all_reduce", {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1", "-c", "0"});
  EXPECT_EQ(o.exit_code, kExitOk);
  ASSERT_EQ(o.rows.size(), 1u);
  EXPECT_EQ(o.rows[0][8], "N/A");
}

TEST_F(Driver, EndsWithSevenBelowTheBandwidthAskedFor) {
  setenv("HORING_TESTS_MIN_BW", "1e9", 1);
  const Outcome o = runPerf("all_reduce", {"-t", "2", "-b", "4K", "-e", "4K", "-n", "1"});
  EXPECT_EQ(o.exit_code, kExitWrongData);
  EXPECT_NE(o.text.find("FAILED"), std::string::npos);
}

TEST_F(Driver, EndsWithThreeAndTheLibrarysWordsWhenItFails) {
  testing::faults().fail_collectives = true;
  const Outcome o = runPerf("all_gather", {"-t", "2", "-b", "8K", "-e", "8K", "-n", "1"});
  EXPECT_EQ(o.exit_code, kExitLibrary);
  EXPECT_NE(o.text.find("rank 1 is gone, as the test wished"), std::string::npos);
  EXPECT_NE(o.text.find("Test failure"), std::string::npos);
}

TEST_F(Driver, RefusesWhatItCannotDoByName) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {{{"-g", "0"}, "--ngpus"},
                                                                    {{"-G", "-1"}, "--cudagraph"},
                                                                    {{"-R", "3"}, "--local_register"},
                                                                    {{"-x", "3"}, "--cta_policy"},
                                                                    {{"-D", "1"}, "--device_implementation"},
                                                                    {{"-o", "mulsum"}, "mulsum"},
                                                                    {{"-o", "xor"}, "xor"},
                                                                    {{"-o", "band"}, "integers"},
                                                                    {{"-d", "int16"}, "int16"},
                                                                    {{"--bogus", "1"}, "bogus"},
                                                                    {{"-t", "0"}, "nthreads"},
                                                                    {{"-n", "many"}, "iters"},
                                                                    {{"-J", "out.txt"}, "out.txt"}};
  for (const auto& [arguments, named] : cases) {
    ::testing::internal::CaptureStderr();
    const Outcome o = runPerf("all_reduce", arguments);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(o.exit_code, kExitInvalidUsage) << arguments[0] << ' ' << arguments[1];
    EXPECT_NE(said.find(named), std::string::npos) << said;
  }
}

TEST_F(Driver, RefusesSizesThatAreNone) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"-b", "8Q"}, {"-b", "2M", "-e", "1M"}, {"-i", "0"}, {"-b", "0", "-f", "2"}})
    EXPECT_EQ(runPerf("all_reduce", arguments).exit_code, kExitBadSize) << arguments[1];
}

TEST_F(Driver, RefusesAnEnvironmentVariableItWouldIgnore) {
  setenv("HORING_TESTS_SPLIT", "MOD 2", 1);
  EXPECT_EQ(runPerf("all_reduce", {"-b", "8", "-e", "8"}).exit_code, kExitInvalidUsage);
}

TEST_F(Driver, ShowsItsOptionsTheirDefaultsAndExamples) {
  const Outcome o = runPerf("all_reduce", {"--help"});
  EXPECT_EQ(o.exit_code, kExitOk);
  for (const char* part : {"--nthreads", "--stepfactor", "--per_iter_timing", "--output_file", "--cudagraph",
                           "all_reduce_perf -t 4 -b 8 -e 64M -f 2", "horing-run -n 4 -- "})
    EXPECT_NE(o.text.find(part), std::string::npos) << part << " in\n" << o.text;
  // CLI11 2.4 shows a default in brackets, older ones after an equals sign.
  using Default = std::pair<std::string, std::string>;
  for (const auto& [option, value] :
       {Default{"--minbytes TEXT", "32M"}, Default{"1073741824]", "20"}, Default{"--op TEXT", "sum"},
        Default{"--average INT:INT in [0 - 3]", "1"}})
    EXPECT_TRUE(o.text.find(option + "=" + value) != std::string::npos ||
                o.text.find(option + " [" + value + "]") != std::string::npos)
        << option << " " << value << " in\n"
        << o.text;
}

TEST_F(Driver, WritesWhatItMeasuredToANewFile) {
  const std::string name = ::testing::TempDir() + "/driver_" + std::to_string(getpid()) + ".json";
  setenv("HORING_RUN_SECRET", "hunter2", 1);
  const Outcome o = runPerf("reduce_scatter", {"-t", "2", "-b", "1K", "-e", "2K", "-f", "2", "-n", "5", "-I",
                                               "1", "-K", "1", "-J", name.c_str()});
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
