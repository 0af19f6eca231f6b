// horing-run on this machine without emulated nodes.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "horing_run/core_binding.h"
#include "horing_run/placement.h"
#include "horing_run/traffic_shape.h"
#include "program.h"
#include "topology/cpu_mask.h"

namespace horing::test {
namespace {

std::vector<std::string> horingRun(const std::vector<std::string>& options, const std::string& script) {
  std::vector<std::string> command = {HORING_RUN_PROGRAM};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", script});
  return command;
}

TEST(Placement, SpreadsBlocksWithTheFirstNodesLarger) {
  const std::vector<run::Placement> places = run::placeRanks(run::spreadEvenly(7, 3));
  ASSERT_EQ(places.size(), 7u);
  const int nodes[] = {0, 0, 0, 1, 1, 2, 2};
  const int local_ranks[] = {0, 1, 2, 0, 1, 0, 1};
  const int local_sizes[] = {3, 3, 3, 2, 2, 2, 2};
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_EQ(places[rank].rank, rank);
    EXPECT_EQ(places[rank].node, nodes[rank]);
    EXPECT_EQ(places[rank].local_rank, local_ranks[rank]);
    EXPECT_EQ(places[rank].local_size, local_sizes[rank]);
  }
}

TEST(CoreBinding, TakesHardwareThreadsOfACoreForOne) {
  const std::filesystem::path sysfs = testing::TempDir() + "cores-" + std::to_string(getpid());
  for (const int cpu : {0, 1, 4, 5}) {
    const auto folder = sysfs / ("cpu" + std::to_string(cpu)) / "topology";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "thread_siblings") << (cpu % 4 == 0 ? "00000011\n" : "00000022\n");
  }
  EXPECT_EQ(run::byCore({0, 1, 4, 5}, sysfs), (std::vector<run::Cpus>{{0, 4}, {1, 5}}));
  EXPECT_EQ(run::byCore({1, 4}, sysfs), (std::vector<run::Cpus>{{1}, {4}})) << "only what may be used";
  EXPECT_EQ(run::byCore({0, 9}, sysfs), (std::vector<run::Cpus>{{0}, {9}})) << "sysfs says nothing of 9";
  std::filesystem::remove_all(sysfs);
}

TEST(TrafficShape, KeepsOffloadedPacketsBelowTheSmallBucket) {
  for (const int rate : {1, 10, 200, 1000, 2000, 25000, 100000}) {
    const run::TrafficShape shape = run::shapeForRate(rate);
    EXPECT_EQ(shape.rate_kbit, int64_t{rate} * 1000);
    EXPECT_GT(shape.ceiling_kbit, shape.rate_kbit);
    EXPECT_GE(shape.ceiling_bucket_bytes, run::kMtu) << "no packet would ever pass at " << rate;
    EXPECT_LE(shape.offload_limit_bytes, 65536);
    EXPECT_LE(shape.offload_limit_bytes - shape.ceiling_bucket_bytes, 400);
  }
}

TEST(HoringRun, TellsEachRankWhoItIs) {
  const Outcome outcome = runProgram(
      horingRun({"-n", "3"}, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE ${HORING_RUN_NODE-none}"));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(sortedLines(outcome.output),
            (std::vector<std::string>{"0 3 0 3 none", "1 3 1 3 none", "2 3 2 3 none"}));
}

TEST(HoringRun, GivesAllRanksOneNewSecretAndRoot) {
  const auto command = horingRun({"-n", "2"}, "echo $HORING_RUN_SECRET; echo $HORING_ROOT");
  const auto first = sortedLines(runProgram(command).output);
  const auto second = sortedLines(runProgram(command).output);
  ASSERT_EQ(first.size(), 4u);
  ASSERT_EQ(second.size(), 4u);
  for (const auto& lines : {first, second}) {
    // The address begins with a digit below most secrets, but not below all.
    const std::string& root = lines[0].find(':') != std::string::npos ? lines[0] : lines[2];
    const std::string& secret = lines[0].find(':') != std::string::npos ? lines[2] : lines[0];
    EXPECT_EQ(std::count(lines.begin(), lines.end(), root), 2);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), secret), 2);
    EXPECT_EQ(root.substr(0, 10), "127.0.0.1:");
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
  EXPECT_NE(first, second);
}

TEST(HoringRun, GivesAllRanksOneMasterForPyTorch) {
  const Outcome outcome =
      runProgram(horingRun({"-n", "2"}, "echo $MASTER_ADDR $MASTER_PORT ${HORING_ROOT##*:}"));
  const auto lines = sortedLines(outcome.output);
  ASSERT_EQ(lines.size(), 2u) << outcome.errors;
  EXPECT_EQ(lines[0], lines[1]);
  std::istringstream words(lines[0]);
  std::string address;
  int port = 0, port_of_root = 0;
  words >> address >> port >> port_of_root;
  EXPECT_EQ(address, "127.0.0.1");
  EXPECT_GT(port, 0);
  EXPECT_NE(port, port_of_root);
}

TEST(HoringRun, StartsRanksWithTheSignalsItWasStartedWith) {
  const std::string script = "grep SigBlk /proc/self/status";
  const Outcome expected = runProgram({"sh", "-c", script});
  EXPECT_NE(expected.output, "");
  EXPECT_EQ(runProgram(horingRun({"-n", "1"}, script)).output, expected.output);
}

TEST(HoringRun, TagsEachLineWithItsRank) {
  const Outcome outcome =
      runProgram(horingRun({"-n", "2", "--tag-output"}, "echo one; echo two >&2; printf end"));
  EXPECT_EQ(sortedLines(outcome.output),
            (std::vector<std::string>{"[0] end", "[0] one", "[1] end", "[1] one"}));
  EXPECT_EQ(sortedLines(outcome.errors), (std::vector<std::string>{"[0] two", "[1] two"}));
}

constexpr const char* kSayCpus = "echo $RANK $(grep Cpus_allowed: /proc/self/status | cut -f2)";

TEST(HoringRun, BindsRanksToCoresWhenAsked) {
  const run::Cpus all = cpusOfThisThread();
  const std::vector<run::Cpus> cores = run::byCore(all);
  const size_t ranks = std::min<size_t>(cores.size(), 8) + 1;  // one more than cores, where there are few
  for (const std::string where : {"core", "none"}) {
    const Outcome outcome =
        runProgram(horingRun({"-n", std::to_string(ranks), "--bind-to", where}, kSayCpus));
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    const std::vector<std::string> lines = sortedLines(outcome.output);
    ASSERT_EQ(lines.size(), ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(parseCpuMask(lines[rank].substr(2)).value(),
                where == "core" ? cores[rank % cores.size()] : all)
          << lines[rank];
  }
}

// As a cpuset, or taskset.
TEST(HoringRun, BindsRanksOnlyToWhatItMayUseItself) {
  const int32_t only = cpusOfThisThread().back();
  Program program(horingRun({"-n", "2", "--bind-to", "core"}, kSayCpus), [=] { (void)run::bindTo({only}); });
  EXPECT_EQ(program.wait(), 0) << program.errors();
  for (const std::string& line : sortedLines(program.output()))
    EXPECT_EQ(parseCpuMask(line.substr(2)).value(), run::Cpus{only}) << line;
}

TEST(HoringRun, PassesInputToRankZeroOnly) {
  const Outcome outcome = runProgram(
      {"sh", "-c", std::string("echo text | ") + HORING_RUN_PROGRAM + " -n 2 --tag-output -- sh -c 'wc -c'"});
  EXPECT_EQ(sortedLines(outcome.output), (std::vector<std::string>{"[0] 5", "[1] 0"}));
}

TEST(HoringRun, EndsWithTheCodeOfTheRankThatFailed) {
  const Outcome outcome = runProgram(horingRun({"-n", "3"}, "[ $RANK = 1 ] && exit 7; exec sleep 1000"));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_NE(outcome.errors.find("rank 1 ended with exit code 7"), std::string::npos) << outcome.errors;
}

TEST(HoringRun, LetsTheOthersReportBeforeItEndsThem) {
  const std::string failed = testing::TempDir() + "failed-" + std::to_string(getpid());
  const Outcome outcome = runProgram(
      horingRun({"-n", "2"}, "[ $RANK = 1 ] && { >" + failed + "; exit 7; }; trap exit TERM; until [ -e " +
                                 failed + " ]; do sleep 0.01; done; sleep 0.4; echo reported; exit 5"));
  std::filesystem::remove(failed);
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.output, "reported\n");
}

TEST(HoringRun, EndsWith128PlusTheSignalThatEndedARank) {
  const Outcome outcome =
      runProgram(horingRun({"-n", "2"}, "[ $RANK = 1 ] && kill -KILL $$; exec sleep 1000"));
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  EXPECT_NE(outcome.errors.find("rank 1 was ended by signal 9"), std::string::npos) << outcome.errors;
}

TEST(HoringRun, TakesNoCodeForASignalThatThereIsNot) {
  const Outcome outcome = runProgram(horingRun({"-n", "2"}, "[ $RANK = 1 ] && exit 255; exec sleep 1000"));
  EXPECT_EQ(outcome.code, 255);
  EXPECT_NE(outcome.errors.find("rank 1 ended with exit code 255"), std::string::npos) << outcome.errors;
}

TEST(HoringRun, KillsRanksThatIgnoreTheirEnd) {
  const std::string ready = testing::TempDir() + "ignores-" + std::to_string(getpid());
  const Outcome outcome = runProgram(
      horingRun({"-n", "2", "--grace", "0.1"}, "if [ $RANK = 1 ]; then until [ -e " + ready +
                                                   " ]; do sleep 0.01; done; exit 3; fi; trap '' TERM; >" +
                                                   ready + "; while :; do sleep 1; done"));
  std::filesystem::remove(ready);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.errors.find("killing rank 0"), std::string::npos) << outcome.errors;
}

TEST(HoringRun, KeepsGoingWhenAsked) {
  const Outcome outcome =
      runProgram(horingRun({"-n", "2", "--keep-going"}, "[ $RANK = 0 ] && exit 5; sleep 0.3; echo done"));
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(outcome.output, "done\n");
}

TEST(HoringRun, EndsAfterTheTimeout) {
  const Outcome outcome = runProgram(horingRun({"-n", "2", "--timeout", "0.2"}, "exec sleep 1000"));
  EXPECT_EQ(outcome.code, 124);
  EXPECT_NE(outcome.errors.find("rank 0, 1"), std::string::npos) << outcome.errors;
}

TEST(HoringRun, ForwardsSignals) {
  Program program(horingRun(
      {"-n", "2"},
      "trap 'echo user' USR1; trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return program.output() == "ready\nready\n"; })) << program.errors();
  program.signal(SIGUSR1);
  EXPECT_TRUE(eventually([&] { return program.output() == "ready\nready\nuser\nuser\n"; }))
      << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM);
  EXPECT_EQ(program.output(), "ready\nready\nuser\nuser\nterm\nterm\n");
}

// The state letter of a process, as ps shows it.
char stateOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name = line.rfind(") ");
  return name == std::string::npos ? '?' : line[name + 2];
}

// What a terminal sends for Ctrl-Z, and a shell for fg. The shells start their child before they say so: one that is stopped while its
// child of vfork() is stopped, too, is in state D.
TEST(HoringRun, StopsItsRanksWithItself) {
  Program program(horingRun({"-n", "2", "--timeout", "4"}, "sleep 1.5 & echo $$; wait; echo done"));
  ASSERT_TRUE(eventually([&] { return sortedLines(program.output()).size() == 2; })) << program.errors();
  std::vector<pid_t> all = {program.pid()};
  for (const std::string& line : sortedLines(program.output())) all.push_back(std::stoi(line));
  program.signal(SIGTSTP);
  for (const pid_t each : all) EXPECT_TRUE(eventually([&] { return stateOf(each) == 'T'; })) << each;
  std::this_thread::sleep_for(std::chrono::seconds(4));
  EXPECT_EQ(sortedLines(program.output()).size(), 2u) << "they went on";
  program.signal(SIGCONT);
  EXPECT_EQ(program.wait(), 0) << "time in which it was stopped has counted: " << program.errors();
  EXPECT_EQ(sortedLines(program.output()).size(), 4u);
}

TEST(HoringRun, LeavesNoProcessWhenKilled) {
  // Each rank has a child process that only the guard would end.
  Program program(horingRun({"-n", "2"}, "sleep 1000 & echo $! $$; wait"));
  ASSERT_TRUE(eventually([&] { return sortedLines(program.output()).size() == 2; })) << program.errors();
  program.signal(SIGKILL);
  program.wait();
  for (const std::string& line : sortedLines(program.output())) {
    const pid_t child = std::stoi(line);
    const pid_t rank = std::stoi(line.substr(line.find(' ')));
    EXPECT_TRUE(eventually([&] { return !processRuns(child) && !processRuns(rank); })) << line;
  }
}

TEST(HoringRun, LeavesNoProcessAtItsEnd) {
  const Outcome outcome = runProgram(horingRun({"-n", "2"}, "sleep 1000 >/dev/null 2>&1 & echo $!"));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const std::string& line : sortedLines(outcome.output)) {
    const pid_t child = std::stoi(line);
    EXPECT_TRUE(eventually([&] { return !processRuns(child); })) << line;
  }
}

TEST(HoringRun, NamesWhatIsWrongWithTheCommandLine) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"-n", "2"}, "no command"},
      {{"-n", "0", "--", "true"}, "--ranks"},
      {{"-n", "2", "--nodes", "3", "--", "true"}, "--nodes 3 exceeds -n 2"},
      {{"-n", "2", "--rate", "100", "--", "true"}, "give --nodes too"},
      {{"-n", "2", "--rate", "-1", "--nodes", "2", "--", "true"}, "--rate"},
      {{"-n", "2", "--nodes", "2", "--rate", "100,fast", "--", "true"}, "'fast' is not a number"},
      {{"-n", "3", "--nodes", "3", "--rate", "100,200", "--", "true"}, "2 speeds for 3 nodes"},
      {{"-n", "3", "--ranks-per-node", "2,2", "--", "true"}, "4 ranks on 2 nodes"},
      {{"--nodes", "3", "--ranks-per-node", "2,2", "--", "true"}, "4 ranks on 2 nodes"},
      {{"--ranks-per-node", "2,0", "--", "true"}, "'0' is not a number from 1"},
      {{"-n", "2", "--nodes", "2", "--rate", "100", "--rate-at", "5:1", "--", "true"}, "SECONDS:NODE=MBIT"},
      {{"-n", "2", "--nodes", "2", "--rate", "100", "--rate-at", "5:1=0", "--", "true"}, "SECONDS:NODE=MBIT"},
      {{"-n", "2", "--nodes", "2", "--rate", "100", "--rate-at", "5:2=50", "--", "true"}, "nodes 0 to 1"},
      {{"-n", "2", "--nodes", "2", "--rate-at", "5:1=50", "--", "true"}, "give it one with --rate"},
      {{"-n", "2", "--nodes", "2", "--uplink", "1-0=50", "--", "true"}, "FIRST-LAST=MBIT"},
      {{"-n", "2", "--nodes", "2", "--uplink", "0-2=50", "--", "true"}, "nodes 0 to 1"},
      {{"-n", "2", "--nodes", "2", "--uplink", "0-1=50", "--uplink", "1-1=50", "--", "true"}, "two uplinks"},
      {{"-n", "2", "--rate-at", "5:1=50", "--", "true"}, "give --nodes too"},
      {{"-n", "2", "--bind-to", "socket", "--", "true"}, "--bind-to: socket not in {core,none}"},
      {{"-n", "2", "--no-such-option", "--", "true"}, "no-such-option"},
  };
  for (const auto& [options, expected] : cases) {
    std::vector<std::string> command = {HORING_RUN_PROGRAM};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = runProgram(command);
    EXPECT_EQ(outcome.code, 2) << expected;
    EXPECT_NE(outcome.errors.find(expected), std::string::npos) << outcome.errors;
  }
}

TEST(HoringRun, SaysWhyACommandDoesNotStart) {
  const Outcome outcome = runProgram({HORING_RUN_PROGRAM, "-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.errors.find("/no/such/program: No such file"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace horing::test
