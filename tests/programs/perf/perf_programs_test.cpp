// The programs as a user runs them, over the library.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../../temporary_folder.h"
#include "program.h"

namespace horing::test {
namespace {

namespace fs = std::filesystem;

std::string binary(const std::string& name) {
  return (fs::path(HORING_BIN) / name).string();
}

std::vector<std::string> underRun(int ranks, std::vector<std::string> command) {
  std::vector<std::string> all = {binary("horing-run"), "-n",  std::to_string(ranks),
                                  "--timeout",          "100", "--"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::vector<std::vector<std::string>> rowsOf(const std::string& output) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (!words.empty() && words[0][0] != '#') rows.push_back(std::move(words));
  }
  return rows;
}

// Thirteen columns each, nothing wrong in any half that there is.
void expectGoodRows(const Outcome& outcome, size_t count) {
  ASSERT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  const auto rows = rowsOf(outcome.output);
  ASSERT_EQ(rows.size(), count) << outcome.output;
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 13u) << outcome.output;
    EXPECT_EQ(row[8], "0");
    EXPECT_TRUE(row[12] == "0" || (row[12] == "N/A" && row[9] == "N/A")) << outcome.output;
  }
  EXPECT_NE(outcome.output.find("# Out of bounds values : 0 OK"), std::string::npos);
  EXPECT_NE(outcome.output.find("# Avg bus bandwidth    : "), std::string::npos);
}

constexpr const char* kPrograms[] = {"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                                     "broadcast_perf",  "reduce_perf",     "gather_perf",
                                     "scatter_perf",    "alltoall_perf",   "alltoallv_perf",
                                     "sendrecv_perf",   "hypercube_perf"};

bool reduces(const std::string& program) {
  return program == "all_reduce_perf" || program == "reduce_scatter_perf" || program == "reduce_perf";
}

TEST(PerfPrograms, GiveRightDataWithThreads) {
  for (const char* program : kPrograms)
    expectGoodRows(runProgram({binary(program), "-t", "4", "-b", "64", "-e", "64K", "-f", "32", "-n", "2",
                               "-d", "all", "-o", "all", "-r", "1"}),
                   // Three sizes; of 12 types, 6 of integers, which can also be folded bit by bit.
                   3 * (reduces(program) ? 12 * 5 + 6 * 3 : 12));
}

// The usual command of nccl-tests, and options that are about GPUs, on memory of the host.
TEST(PerfPrograms, TakeOptionsOfNcclTests) {
  const Outcome outcome = runProgram({binary("all_reduce_perf"),
                                      "-t",
                                      "2",
                                      "-g",
                                      "2",
                                      "-b",
                                      "8",
                                      "-e",
                                      "128K",
                                      "-f",
                                      "16",
                                      "-n",
                                      "2",
                                      "-G",
                                      "3",
                                      "-x",
                                      "1",
                                      "-R",
                                      "2",
                                      "--buffers",
                                      "host"});
  expectGoodRows(outcome, 4);
  EXPECT_NE(outcome.output.find("# nThread 2 nGpus 2 "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("#  Rank  3 "), std::string::npos) << outcome.output;
  EXPECT_EQ(runProgram({binary("all_reduce_perf"), "-t", "64", "-g", "64"}).code, 6);
}

// Inputs and outputs that the processes of a node read and write in place, also where no buffer is aligned; the largest go past the
// caches.
TEST(PerfPrograms, GiveRightDataInMemoryThatPeersReach) {
  for (const char* program : {"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf"})
    for (const char* shift : {"0", "1"})
      expectGoodRows(runProgram(underRun(3, {binary(program), "-R", "1", "-u", shift, "-b", "192K", "-e",
                                             "12M", "-f", "8", "-n", "2"})),
                     3);
}

// Ordinary memory: the first calls of a size are copied once, by the kernel, or through slots.
TEST(PerfPrograms, GiveRightDataInMemoryThatTheKernelReads) {
  for (const char* shift : {"0", "1"})
    expectGoodRows(runProgram(underRun(3, {binary("all_gather_perf"), "-u", shift, "-b", "192K", "-e", "12M",
                                           "-f", "8", "-n", "2"})),
                   3);
}

// With a fake driver without a GPU, and memory that crashes all other accesses.
TEST(PerfPrograms, GiveRightDataOnMemoryOfAGpu) {
  const std::string driver = "LD_LIBRARY_PATH=" HORING_FAKE_CUDA_FOLDER;
  for (const char* program : kPrograms) {
    // Without --buffers, where there is a GPU.
    const Outcome outcome = runProgram({"env", driver, binary(program), "-t", "4", "-b", "0", "-e", "3M",
                                        "-i", "3000K", "-n", "2", "-u", "1", "-r", "1"});
    expectGoodRows(outcome, 2);
    EXPECT_NE(outcome.output.find("device  3 [cuda] memory"), std::string::npos) << outcome.output;
  }
  expectGoodRows(runProgram({"env", driver, binary("all_reduce_perf"), "-t", "2", "--buffers", "host", "-b",
                             "64", "-e", "64"}),
                 1);
}

// An empty file comes before the machine's driver, if it has one.
TEST(PerfPrograms, SayThatThereIsNoGpu) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "libcuda.so.1").flush();
  const Outcome outcome = runProgram(
      {"env", "LD_LIBRARY_PATH=" + folder.path().string(), binary("all_reduce_perf"), "--buffers", "cuda"});
  EXPECT_NE(outcome.code, 0) << outcome.output;
  EXPECT_NE((outcome.output + outcome.errors).find("CUDA driver"), std::string::npos) << outcome.output;
}

TEST(PerfPrograms, GiveRightDataWithEachRankAsRoot) {
  for (const char* program : {"broadcast_perf", "reduce_perf", "gather_perf", "scatter_perf"})
    expectGoodRows(
        runProgram(underRun(3, {binary(program), "-b", "64K", "-e", "64K", "-n", "2", "-r", "-1"})), 3);
}

TEST(PerfPrograms, GiveRightDataWithProcesses) {
  for (const char* program : kPrograms) {
    const Outcome outcome = runProgram(underRun(
        4, {binary(program), "-r", "1", "-b", "0", "-e", "4M", "-i", "1300K", "-n", "3", "-u", "1"}));
    expectGoodRows(outcome, 4);
    EXPECT_NE(outcome.output.find("#  Rank  3 "), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find("#  Rank  4 "), std::string::npos) << outcome.output;
  }
}

TEST(PerfPrograms, MultiplyProcessesByThreads) {
  const Outcome outcome =
      runProgram(underRun(2, {binary("all_reduce_perf"), "-t", "2", "-b", "64K", "-e", "64K", "-n", "2"}));
  expectGoodRows(outcome, 1);
  EXPECT_NE(outcome.output.find("#  Rank  3 "), std::string::npos) << outcome.output;
}

TEST(PerfPrograms, MakeCommunicatorsInParallel) {
  expectGoodRows(runProgram({binary("all_reduce_perf"), "-t", "4", "-p", "1", "-b", "1K", "-e", "1K", "-n",
                             "2", "-M", "1"}),
                 1);
}

TEST(PerfPrograms, SayWhatTheMachineShouldReach) {
  const Outcome outcome = runProgram(
      underRun(2, {binary("all_reduce_perf"), "--explain", "-b", "1K", "-e", "64K", "-f", "8", "-n", "20"}));
  expectGoodRows(outcome, 3);
  EXPECT_NE(outcome.output.find("for this machine, as it was measured before"), std::string::npos)
      << outcome.output;
  const std::string explanation = outcome.output.substr(outcome.output.find("# Predicted"));
  for (const char* bytes : {"1024", "8192", "65536"}) {
    const size_t at = explanation.find(std::string(" ") + bytes + " ");
    ASSERT_NE(at, std::string::npos) << explanation;
    std::istringstream row(explanation.substr(at));
    std::string size, type, op, bound;
    double measured_us = 0, predicted_us = 0, reached = 0;
    row >> size >> type >> op >> measured_us >> predicted_us >> reached >> bound;
    EXPECT_GT(measured_us, 0);
    EXPECT_GT(predicted_us, 0);
    EXPECT_GT(reached, 0);
    const std::set<std::string> kinds = {"links", "memory:", "cores:", "algorithm:", "latency", "slots:"};
    EXPECT_TRUE(kinds.contains(bound)) << explanation;
  }
  EXPECT_EQ(explanation.find("# Times of each rank"), std::string::npos) << explanation;
}

TEST(PerfPrograms, ShowTheTimesOfEachRankOnDemand) {
  const Outcome outcome = runProgram(
      underRun(3, {binary("all_reduce_perf"), "--explain=ranks", "-b", "1M", "-e", "1M", "-n", "20"}));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const size_t at = outcome.output.find("# Times of each rank");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  std::istringstream lines(outcome.output.substr(at));
  std::string line;
  for (int heading = 0; heading < 3; ++heading) std::getline(lines, line);
  for (int rank = 0; rank < 3; ++rank) {
    std::getline(lines, line);
    std::istringstream row(line);
    std::string mark, size, type, op;
    int shown = -1;
    double least = 0, median = 0, most = 0;
    row >> mark >> size >> type >> op >> shown >> least >> median >> most;
    EXPECT_EQ(shown, rank) << line;
    EXPECT_GT(least, 0) << line;
    EXPECT_LE(least, median) << line;
    EXPECT_LE(median, most) << line;
  }
  const size_t waits = outcome.output.find("# For whom each rank waited");
  ASSERT_NE(waits, std::string::npos) << outcome.output;
  std::istringstream wait_lines(outcome.output.substr(waits));
  for (int heading = 0; heading < 3; ++heading) std::getline(wait_lines, line);
  // A rank that is always last waits for nobody.
  int waits_seen = 0;
  for (; std::getline(wait_lines, line) && line != "#"; ++waits_seen) {
    std::istringstream row(line);
    std::string mark;
    int rank = -1, peer = -1;
    double data_s = -1, room_s = -1;
    row >> mark >> rank >> peer >> data_s >> room_s;
    EXPECT_TRUE(rank >= 0 && rank < 3) << line;
    EXPECT_TRUE(peer >= 0 && peer < 3 && peer != rank) << line;
    EXPECT_GE(data_s, 0) << line;
    EXPECT_GE(room_s, 0) << line;
  }
  EXPECT_GT(waits_seen, 0) << outcome.output;
}

TEST(PerfPrograms, RunWithOneRank) {
  for (const char* program : kPrograms)
    expectGoodRows(runProgram({binary(program), "-b", "1K", "-e", "1K", "-n", "1"}), 1);
}

TEST(PerfPrograms, WriteJsonWithoutTheJobsSecret) {
  const fs::path name = fs::path(::testing::TempDir()) / ("perf_" + std::to_string(getpid()) + ".json");
  const Outcome outcome = runProgram(
      underRun(2, {binary("reduce_scatter_perf"), "-b", "1K", "-e", "4K", "-f", "2", "-n", "2", "-J", name}));
  expectGoodRows(outcome, 3);
  std::ifstream in(name);
  std::ostringstream content;
  content << in.rdbuf();
  fs::remove(name);
  const nlohmann::json json = nlohmann::json::parse(content.str());
  EXPECT_EQ(json["results"].size(), 3u);
  EXPECT_EQ(json["config"]["devices"].size(), 2u);
  size_t secrets = 0;
  for (const std::string variable : json["env"]) {
    if (!variable.starts_with("HORING_RUN_SECRET=")) continue;
    ++secrets;
    EXPECT_EQ(variable, "HORING_RUN_SECRET=<redacted>");
  }
  EXPECT_EQ(secrets, 1u);
}

TEST(PerfPrograms, EndWithSixOnBadOptionsAndSevenBelowTheBandwidthAskedFor) {
  EXPECT_EQ(runProgram({binary("all_reduce_perf"), "--bogus", "1"}).code, 6);
  EXPECT_EQ(runProgram({binary("all_reduce_perf"), "-g", "0"}).code, 6);
  EXPECT_EQ(runProgram({binary("all_reduce_perf"), "--explain=nodes"}).code, 6);
  EXPECT_EQ(runProgram({binary("all_reduce_perf"), "-b", "8Q"}).code, 255);
  const Outcome odd = runProgram(underRun(3, {binary("hypercube_perf"), "-b", "1K", "-e", "1K"}));
  EXPECT_EQ(odd.code, 6);
  EXPECT_NE(odd.errors.find("expected a power of two"), std::string::npos) << odd.errors;
  const Outcome slow = runProgram(
      {"env", "HORING_TESTS_MIN_BW=1e9", binary("all_reduce_perf"), "-t", "2", "-b", "1K", "-e", "1K"});
  EXPECT_EQ(slow.code, 7);
  EXPECT_NE(slow.output.find("FAILED"), std::string::npos);
}

TEST(PerfPrograms, EndWithThreeWhenTheLibraryRefuses) {
  const Outcome outcome =
      runProgram({"env", "HORING_ALGO=bogus", binary("all_reduce_perf"), "-t", "2", "-b", "1K", "-e", "1K"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.output.find("HORING_ALGO"), std::string::npos);
}

TEST(HoRingBench, ComparesTwoCommunicatorsOfOneProcess) {
  const Outcome outcome =
      runProgram(underRun(4, {binary("ho_ring_bench"), "--sizes", "64K,1M", "--repetitions", "3"}));
  ASSERT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  size_t comparisons = 0;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    comparisons += json["line"] == "comparison" ? 1 : 0;
    if (json["line"] == "job") {
      EXPECT_EQ(json["ranks"], 4);
    }
    if (json["line"] == "time") {
      EXPECT_EQ(json["times_ms"].size(), 3u);
    }
  }
  EXPECT_EQ(comparisons, 6u);
}

}  // namespace
}  // namespace horing::test
