// horing-run with emulated nodes. Skipped where the machine lets us make no namespaces.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "horing_run/core_binding.h"
#include "program.h"
#include "topology/cpu_mask.h"

namespace horing::test {
namespace {

class HoringRunNodes : public testing::Test {
 protected:
  void SetUp() override { HORING_NEEDS_NODES(); }

  static std::vector<std::string> command(const std::vector<std::string>& options,
                                          const std::vector<std::string>& rank) {
    std::vector<std::string> words = {HORING_RUN_PROGRAM};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), rank.begin(), rank.end());
    return words;
  }
  static std::vector<std::string> probe(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {HORING_PYTHON, HORING_LINK_PROBE};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
};

std::set<std::string> interfacesHere() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net"))
    names.insert(entry.path().filename());
  return names;
}

// Some process is in this network namespace ("net:[4026532000]").
bool namespaceInUse(const std::string& network) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto link = std::filesystem::read_symlink(entry.path() / "ns/net", error);
    if (!error && link == network) return true;
  }
  return false;
}

TEST_F(HoringRunNodes, SpreadsRanksUnevenlyAndSaysSo) {
  const Outcome outcome = runProgram(
      command({"-n", "5", "--nodes", "2"},
              {"sh", "-c",
               "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $HORING_RUN_NODE/$HORING_RUN_NODES $(hostname)"}));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(sortedLines(outcome.output),
            (std::vector<std::string>{"0 0/3 0/2 node0", "1 1/3 0/2 node0", "2 2/3 0/2 node0",
                                      "3 0/2 1/2 node1", "4 1/2 1/2 node1"}));
  EXPECT_NE(outcome.errors.find("5 ranks do not divide by 2 nodes"), std::string::npos) << outcome.errors;
}

TEST_F(HoringRunNodes, HaveTheirOwnRanksAndRates) {
  const Outcome outcome = runProgram(command(
      {"--ranks-per-node", "2,1", "--rate", "400,50"},
      {"sh", "-c",
       "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $HORING_RUN_RATE_MBIT $HORING_RUN_RATES_MBIT "
       "$(tc class show dev r0 | grep -o 'rate [0-9]*Mbit')"}));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(sortedLines(outcome.output),
            (std::vector<std::string>{"0/3 0/2 50 400,50 rate 400Mbit", "1/3 1/2 50 400,50 rate 400Mbit",
                                      "2/3 0/1 50 400,50 rate 50Mbit"}));
  EXPECT_EQ(outcome.errors, "");
}

// The rate between nodes on both sides of an uplink, and between two on the same side.
TEST_F(HoringRunNodes, ShareAnUplink) {
  for (const auto& [uplink, least, most] :
       {std::tuple("1-1=50", 35.0, 52.0), std::tuple("0-1=50", 120.0, 210.0)}) {
    const Outcome outcome = runProgram(command(
        {"-n", "2", "--nodes", "2", "--rate", "200", "--uplink", uplink}, probe({"send", "2000000"})));
    std::istringstream words(outcome.output);
    double bytes = 0, rate = 0;
    words >> bytes >> rate;
    EXPECT_EQ(bytes, 2e6) << outcome.errors;
    EXPECT_GT(rate, least) << uplink;
    EXPECT_LT(rate, most) << uplink;
  }
}

// Rank 1 looks until it sees the last rate, and rank 0 looks after that: no step depends on how fast the machine is.
TEST_F(HoringRunNodes, ChangeTheirRateWhileTheyRun) {
  const std::string seen = testing::TempDir() + "rate-seen-" + std::to_string(getpid());
  const std::string script =
      "rate() { tc class show dev r0 | grep -o 'rate [0-9]*Mbit'; }; for i in $(seq 3000); do "
      "if [ $RANK = 1 ] && [ \"$(rate)\" = 'rate 30Mbit' ]; then touch " +
      seen + "; fi; if [ -e " + seen + " ]; then echo $RANK $(rate); exit; fi; sleep 0.02; done";
  const Outcome outcome = runProgram(
      command({"-n", "2", "--nodes", "2", "--rate", "100", "--rate-at", "0.4:1=30", "--rate-at", "0.2:1=60"},
              {"sh", "-c", script}));
  std::filesystem::remove(seen);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(sortedLines(outcome.output), (std::vector<std::string>{"0 rate 100Mbit", "1 rate 30Mbit"}));
  const size_t first = outcome.errors.find("the links of node 1 have 60 Mbit/s");
  ASSERT_NE(first, std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("the links of node 1 have 30 Mbit/s", first), std::string::npos)
      << outcome.errors;
}

TEST_F(HoringRunNodes, GivesEachNodeItsOwnSharedMemory) {
  const Outcome apart = runProgram(command({"-n", "2", "--nodes", "2"}, probe({"memory"})));
  EXPECT_EQ(sortedLines(apart.output), (std::vector<std::string>{"0 0", "1 1"})) << apart.errors;
  const Outcome together = runProgram(command({"-n", "2", "--nodes", "1"}, probe({"memory"})));
  EXPECT_EQ(sortedLines(together.output), (std::vector<std::string>{"0 0 1", "1 0 1"})) << together.errors;
}

TEST_F(HoringRunNodes, BindRanksThatTalkToEachOtherToDifferentCores) {
  const std::vector<run::Cpus> cores = run::byCore(cpusOfThisThread());
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  Program program(command({"-n", "4", "--nodes", "2", "--bind-to", "core"},
                          {"sh", "-c", "echo $RANK $(grep Cpus_allowed: /proc/self/status | cut -f2)"}),
                  [&] {
                    (void)run::bindTo({cores[0][0], cores[1][0]});
                  });
  EXPECT_EQ(program.wait(), 0) << program.errors();
  std::vector<run::Cpus> bound;
  for (const std::string& line : sortedLines(program.output()))
    bound.push_back(parseCpuMask(line.substr(2)).value());
  const run::Cpus one = {cores[0][0]}, other = {cores[1][0]};
  EXPECT_EQ(bound, (std::vector<run::Cpus>{one, other, other, one}));
}

TEST_F(HoringRunNodes, LimitsSharedMemoryWhenAsked) {
  const Outcome outcome =
      runProgram(command({"-n", "1", "--nodes", "1", "--shm-mib", "4"},
                         {"sh", "-c", "df -P -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2"}));
  EXPECT_EQ(outcome.output, "4096\n") << outcome.errors;
}

TEST_F(HoringRunNodes, ShowsARankItsOwnProcessesAndInterfaces) {
  const Outcome outcome = runProgram(
      command({"-n", "1", "--nodes", "1", "--rails", "2"},
              {"sh", "-c",
               "ls /sys/class/net; [ $$ -lt 10 ] && echo few; cat /sys/class/net/r1/statistics/tx_bytes"}));
  EXPECT_EQ(outcome.output, "lo\nr0\nr1\nfew\n0\n") << outcome.errors;
}

TEST_F(HoringRunNodes, HoldTheirRateAndCountTheirBytes) {
  const std::string report_path = testing::TempDir() + "bytes-" + std::to_string(getpid()) + ".json";
  constexpr double kBytes = 8e6;
  const Outcome outcome =
      runProgram(command({"-n", "2", "--nodes", "2", "--rate", "200", "--report-bytes", report_path},
                         probe({"send", "8000000"})));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  double bytes = 0;
  double rate_mbit = 0;
  std::istringstream(outcome.output) >> bytes >> rate_mbit;
  EXPECT_EQ(bytes, kBytes);
  // Wide: a busy machine makes it slower, and nothing but a missing shaper makes it faster.
  EXPECT_GT(rate_mbit, 0.1 * 200);
  EXPECT_LT(rate_mbit, 1.1 * 200);

  const nlohmann::json report = nlohmann::json::parse(std::ifstream(report_path));
  std::filesystem::remove(report_path);
  ASSERT_EQ(report.at("interfaces").size(), 2u);
  const auto& receiver = report.at("interfaces").at(0);
  const auto& sender = report.at("interfaces").at(1);
  EXPECT_EQ(receiver.at("node"), 0);
  EXPECT_EQ(sender.at("interface"), "r0");
  EXPECT_GE(receiver.at("received_bytes").at("during").get<double>(), kBytes);
  EXPECT_LT(receiver.at("received_bytes").at("during").get<double>(), 1.1 * kBytes);
  EXPECT_GE(sender.at("sent_bytes").at("during").get<double>(), kBytes);
}

TEST_F(HoringRunNodes, PassOnTheCodeOfTheRankThatFailed) {
  const Outcome outcome = runProgram(
      command({"-n", "4", "--nodes", "2"}, {"sh", "-c", "[ $RANK = 3 ] && exit 9; exec sleep 1000"}));
  EXPECT_EQ(outcome.code, 9);
  EXPECT_NE(outcome.errors.find("rank 3 on node 1 ended with exit code 9"), std::string::npos)
      << outcome.errors;
}

TEST_F(HoringRunNodes, DoNotCollideWithThoseOfAnotherRun) {
  const auto words = command({"-n", "2", "--nodes", "2", "--rate", "500"}, probe({"send", "1000000"}));
  Program first(words);
  Program second(words);
  EXPECT_EQ(first.wait(), 0) << first.errors();
  EXPECT_EQ(second.wait(), 0) << second.errors();
}

TEST_F(HoringRunNodes, VanishWhenTheRunIsKilled) {
  const std::set<std::string> before = interfacesHere();
  // A separate session keeps the child out of the rank's process group: only the end of the node reaches it.
  Program program(command({"-n", "2", "--nodes", "2", "--rate", "100"},
                          {"sh", "-c", "setsid sleep 1000 & echo $(readlink /proc/self/ns/net); wait"}));
  ASSERT_TRUE(eventually([&] { return sortedLines(program.output()).size() == 2; })) << program.errors();
  EXPECT_EQ(interfacesHere(), before);
  const std::vector<std::string> networks = sortedLines(program.output());
  for (const std::string& network : networks) EXPECT_TRUE(namespaceInUse(network)) << network;
  program.signal(SIGKILL);
  program.wait();
  for (const std::string& network : networks)
    EXPECT_TRUE(eventually([&] { return !namespaceInUse(network); })) << network;
  EXPECT_EQ(interfacesHere(), before);
}

TEST_F(HoringRunNodes, VanishWhenTheRunIsInterrupted) {
  Program program(command({"-n", "2", "--nodes", "2"},
                          {"sh", "-c", "echo $(readlink /proc/self/ns/net); exec sleep 1000"}));
  ASSERT_TRUE(eventually([&] { return sortedLines(program.output()).size() == 2; })) << program.errors();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 128 + SIGINT);
  for (const std::string& network : sortedLines(program.output()))
    EXPECT_TRUE(eventually([&] { return !namespaceInUse(network); })) << network;
}

// A chroot whose /mnt, and the folder in it, nobody sees outside.
TEST_F(HoringRunNodes, StayInAChroot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes a chroot";
  const std::string root = testing::TempDir() + "horing_run_chroot";
  std::filesystem::create_directory(root);
  std::vector<std::string> words = {"unshare",
                                    "-m",
                                    "sh",
                                    "-ec",
                                    "mount --make-rprivate /; mount --rbind / \"$0\"; mount -t tmpfs tmpfs "
                                    "\"$0/mnt\"; mkdir \"$0/mnt/work\";"
                                    "exec chroot \"$0\" sh -c 'cd /mnt/work && exec \"$@\"' sh \"$@\"",
                                    root};
  std::ranges::copy(command({"-n", "2", "--nodes", "2"}, {"pwd"}), std::back_inserter(words));
  const Outcome outcome = runProgram(words);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(sortedLines(outcome.output), (std::vector<std::string>{"/mnt/work", "/mnt/work"}));
  std::filesystem::remove(root);
}

TEST_F(HoringRunNodes, NeedNoRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "the other tests of this suite just ran without root";
  Program program(command({"-n", "2", "--nodes", "2", "--rate", "200"}, {"hostname"}), [] {
    constexpr unsigned kNobody = 65534;
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(125);
  });
  const int code = program.wait();
  if (code == 126) GTEST_SKIP() << "another user cannot read " << HORING_RUN_PROGRAM;
  if (program.errors().find("this process can make none") != std::string::npos)
    GTEST_SKIP() << program.errors();
  EXPECT_EQ(code, 0) << program.errors();
  EXPECT_EQ(sortedLines(program.output()), (std::vector<std::string>{"node0", "node1"}));
}

}  // namespace
}  // namespace horing::test
