#include "launch/launcher.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "../control/control_ranks.h"
#include "../held_port.h"
#include "../temporary_folder.h"
#include "control/host_addresses.h"
#include "launch/job_secret.h"
#include "launch/launch_variables.h"

namespace horing {
namespace {

using namespace testing_comm;
using test::HeldPort;
using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookupIn(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Result<Launched> launch(const Variables& variables) {
  Result<Config> config = Config::fromLookup(lookupIn(variables));
  EXPECT_TRUE(config.ok()) << config.status().toString();
  return launchedRank(config.value(), Log(LogLevel::kNone), lookupIn(variables));
}

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

// Launches `ranks` ranks that differ in `rank_name` only, and lets them meet.
void expectToMeet(const Variables& variables, const char* rank_name, int ranks) {
  inThreads(ranks, [&](int rank) {
    Result<Launched> launched = launch(variables + Variables{{rank_name, std::to_string(rank)}});
    ASSERT_TRUE(launched.ok()) << launched.status().toString();
    EXPECT_EQ(launched.value().rank, rank);
    EXPECT_EQ(launched.value().ranks, ranks);
    EXPECT_EQ(launched.value().root != nullptr, rank == 0);
    Result<std::unique_ptr<Control>> control = Control::join(joinOptions(launched.value().id, rank, ranks));
    ASSERT_TRUE(control.ok()) << control.status().toString();
    EXPECT_TRUE(control.value()->allGather({}, in(30'000)).ok());
    control.value()->leave();
    if (rank == 0) {
      EXPECT_TRUE(launched.value().root->waitFinished(10'000));
    }
  });
}

class KeyFile : public testing::Test {
 protected:
  std::string file(const std::string& name, size_t bytes, mode_t mode) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << std::string(bytes, 's');
    ::chmod(path.c_str(), mode);
    return path;
  }
  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

const std::string kSecret(64, 'a');

TEST(Launcher, MeetsUnderHoringRun) {
  const HeldPort port;
  const Variables variables = {{"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "0"},
                               {"HORING_ROOT", "127.0.0.1:" + std::to_string(port.number())},
                               {"HORING_RUN_SECRET", kSecret}};
  expectToMeet(variables, "RANK", 4);
  // And again on the same port, as for a second communicator.
  expectToMeet(variables, "RANK", 4);
}

// Their lines in `horing-info job`, their records and their metrics bear this name.
TEST(Launcher, NamesEachJobOfHoringRunDifferently) {
  const auto job_of = [](char digit) {
    const Variables variables = {{"RANK", "1"},
                                 {"WORLD_SIZE", "2"},
                                 {"HORING_ROOT", "127.0.0.1:1"},
                                 {"HORING_RUN_SECRET", std::string(64, digit)}};
    return decodeUniqueId(launch(variables).take().id).take().job;
  };
  EXPECT_EQ(job_of('a'), job_of('a'));
  EXPECT_NE(job_of('a'), job_of('b'));
}

TEST(Launcher, RefusesADamagedSecretOfHoringRun) {
  const Variables good = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"HORING_ROOT", "127.0.0.1:1"}};
  for (const std::string& secret : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                    std::string(64, 'g'), std::string(64, '-')}) {
    const Status status = launch(good + Variables{{"HORING_RUN_SECRET", secret}}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << secret;
    EXPECT_TRUE(mentions(status, "HORING_RUN_SECRET"));
    EXPECT_FALSE(mentions(status, "aaaa")) << "a secret has no place in a message";
  }
}

TEST_F(KeyFile, LetsTorchrunsRanksMeet) {
  const HeldPort port;
  const Variables variables = {{"WORLD_SIZE", "3"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", std::to_string(port.number() - 1)},
                               {"HORING_KEY_FILE", file("key", 32, 0600)}};
  expectToMeet(variables, "RANK", 3);
}

// The process at MASTER_PORT+1 closes each connection, as an unrelated server does.
TEST_F(KeyFile, LetsTorchrunsRanksMeetBesideAStranger) {
  const Address loopback = resolveHost({"127.0.0.1", 1}).take().front().address;
  const Listener stranger = listenOn(&loopback, 0).take();
  std::atomic<bool> stop = false;
  std::thread rude([&] {
    while (!stop) {
      pollfd door{stranger.fd.get(), POLLIN, 0};
      if (::poll(&door, 1, 20) > 0) Fd(::accept(stranger.fd.get(), nullptr, nullptr)).reset();
    }
  });
  const Variables variables = {{"WORLD_SIZE", "3"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", std::to_string(stranger.port - 1)},
                               {"HORING_KEY_FILE", file("key", 32, 0600)}};
  expectToMeet(variables, "RANK", 3);
  stop = true;
  rude.join();
}

TEST_F(KeyFile, SaysAtOnceWhatToDoWhereEveryPortIsBusy) {
  const Address loopback = resolveHost({"127.0.0.1", 1}).take().front().address;
  std::vector<Listener> strangers;
  while (strangers.empty()) {
    strangers.push_back(listenOn(&loopback, 0).take());
    for (uint16_t next = 1; next <= 2 && !strangers.empty(); ++next) {
      Result<Listener> another = listenOn(&loopback, static_cast<uint16_t>(strangers.front().port + next));
      another.ok() ? strangers.push_back(another.take()) : strangers.clear();
    }
  }
  const Status status = launch({{"RANK", "0"},
                                {"WORLD_SIZE", "3"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", std::to_string(strangers.front().port - 1)},
                                {"HORING_KEY_FILE", file("key", 32, 0600)}})
                            .status();
  EXPECT_TRUE(mentions(status, "--master-port") && mentions(status, "HORING_ROOT")) << status.toString();
}

TEST_F(KeyFile, LetsSlurmsRanksMeet) {
  const HeldPort port;
  const Variables variables = {{"SLURM_NTASKS", "3"},
                               {"SLURM_JOB_ID", "17"},
                               {"HORING_ROOT", "127.0.0.1:" + std::to_string(port.number())},
                               {"HORING_KEY_FILE", file("key", 100, 0400)}};
  expectToMeet(variables, "SLURM_PROCID", 3);
}

TEST_F(KeyFile, MustBeTheOwnersAlone) {
  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    const Status status = readKeyFile(file("key", 32, mode)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << mode;
    EXPECT_TRUE(mentions(status, "chmod 600")) << status.toString();
  }
}

TEST_F(KeyFile, MustBeAFileOfEnoughBytes) {
  EXPECT_EQ(readKeyFile((folder_ / "none").string()).status().code(), Code::kSystemError);
  EXPECT_EQ(readKeyFile(folder_.string()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(readKeyFile(file("short", 31, 0600)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(readKeyFile(file("long", kMaxKeyFileBytes + 1, 0600)).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(readKeyFile(file("least", kMinKeyFileBytes, 0600)).ok());
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(readKeyFile(pipe).status().code(), Code::kInvalidArgument);
}

TEST_F(KeyFile, DecidesTheKey) {
  const std::string path = file("key", 40, 0600);
  const auto before = readKeyFile(path).take().bytes;
  EXPECT_EQ(readKeyFile(path).take().bytes, before);
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_NE(readKeyFile(path).take().bytes, before);
}

TEST(Launcher, WantsASecretFromTorchrunAndSaysHow) {
  const Variables variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  const Status status = launch(variables).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_TRUE(mentions(status, "HORING_KEY_FILE") && mentions(status, "HORING_INSECURE=1"))
      << status.toString();
}

TEST(Launcher, RunsWithoutASecretWhenTold) {
  const HeldPort port;
  expectToMeet({{"WORLD_SIZE", "2"},
                {"HORING_ROOT", "localhost:" + std::to_string(port.number())},
                {"HORING_INSECURE", "1"}},
               "RANK", 2);
}

TEST(Launcher, KeepsARestartedJobApartFromTheOneBefore) {
  const Variables first = {{"RANK", "1"},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", "9"},
                           {"HORING_INSECURE", "1"},
                           {"TORCHELASTIC_RUN_ID", "x"},
                           {"TORCHELASTIC_RESTART_COUNT", "0"}};
  const auto job = [](const Variables& variables) {
    return decodeUniqueId(launch(variables).take().id).take().job;
  };
  EXPECT_EQ(job(first), job(first));
  EXPECT_NE(job(first), job(first + Variables{{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  EXPECT_NE(job(first), job(first + Variables{{"TORCHELASTIC_RUN_ID", "y"}}));
  EXPECT_NE(job(first), job(first + Variables{{"MASTER_PORT", "10"}})) << "another job beside it";
}

TEST(Launcher, NamesAVariableWithABadValue) {
  const Variables good = {{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"HORING_INSECURE", "1"}};
  const std::pair<const char*, const char*> wrong[] = {
      {"RANK", "2"},           {"RANK", "-1"},      {"RANK", "1x"},           {"WORLD_SIZE", "0"},
      {"WORLD_SIZE", "65537"}, {"LOCAL_RANK", "2"}, {"MASTER_PORT", "65535"}, {"MASTER_PORT", ""}};
  for (const auto& [name, value] : wrong) {
    const Status status = launch(good + Variables{{name, value}}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name << "=" << value;
    EXPECT_TRUE(mentions(status, std::string(name) + "=" + value)) << status.toString();
  }
}

TEST(Launcher, SaysWhatToDoWithoutALauncher) {
  const Status status = launch({}).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_TRUE(mentions(status, "horing-run, mpirun, srun or torchrun")) << status.toString();
  const Status nowhere = launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).status();
  EXPECT_EQ(nowhere.code(), Code::kInvalidUsage);
  EXPECT_TRUE(mentions(nowhere, "set HORING_ROOT=host:port of rank 0, or MASTER_ADDR")) << nowhere.toString();
}

TEST(SlurmNodes, GiveTheirFirstHost) {
  EXPECT_EQ(firstSlurmHost("node1").take(), "node1");
  EXPECT_EQ(firstSlurmHost("node1,node2").take(), "node1");
  EXPECT_EQ(firstSlurmHost("node[01-04,7],other").take(), "node01");
  EXPECT_EQ(firstSlurmHost("node[7,9]").take(), "node7");
  EXPECT_EQ(firstSlurmHost("rack[1-2]node[3-4]x,y").take(), "rack1node3x");
  EXPECT_EQ(firstSlurmHost("node[5]-ib").take(), "node5-ib");
  for (const char* wrong : {"", ",", "node[1-2"}) EXPECT_FALSE(firstSlurmHost(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace horing
