// A directory for shared memory that is too small, as containers have it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "job.h"

namespace horing::test {
namespace {

constexpr int kCannotMount = 77;

void writeText(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY);
  [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
  close(fd);
}

// Mounts memory on the folder, for this process and its children only.
void mountMemory(const std::string& folder, const char* options, unsigned long flags = 0) {
  const std::string user = "0 " + std::to_string(geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(getegid()) + " 1";
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kCannotMount);
    writeText("/proc/self/setgroups", "deny");
    writeText("/proc/self/uid_map", user);
    writeText("/proc/self/gid_map", group);
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("horing", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | flags, options) != 0)
    _exit(kCannotMount);
}

// Slots for which the directory has no room are in memory of the processes.
TEST(SmallSharedMemory, IsNoObstacle) {
  const ShmFolder folder;
  const JobOptions options{.ranks = 3, .environment = {folder.variable(), "HORING_DEBUG=info"}};
  Program program(jobCommand(options), [&] { mountMemory(folder.path(), "size=1m"); });
  const JobOutcome outcome = endOf(program);
  if (outcome.code == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  EXPECT_NE(outcome.everything.find(folder.path() + " is full: slots of rank "), std::string::npos)
      << outcome.everything;
}

// What the processes have mapped of the folder; files there lose their names soon.
uint64_t mappedBytes(const std::string& folder, const std::vector<std::string>& pids) {
  std::map<std::string, uint64_t> files;  // by inode
  for (const std::string& pid : pids) {
    std::ifstream maps("/proc/" + pid + "/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(folder + "/horing-") == std::string::npos) continue;
      unsigned long long from = 0, to = 0;
      char inode[32] = "";
      if (std::sscanf(line.c_str(), "%llx-%llx %*s %*s %*s %31s", &from, &to, inode) == 3)
        files[inode] = to - from;
    }
  }
  uint64_t bytes = 0;
  for (const auto& [inode, size] : files) bytes += size;
  return bytes;
}

// What horing-info says that the node needs is what a job takes whose ranks all have links to all others.
TEST(SharedMemory, IsTakenAsHoringInfoSays) {
  const nlohmann::json facts =
      nlohmann::json::parse(runProgram({HORING_INFO_PROGRAM, "--json", "--ranks", "0"}).output);
  const nlohmann::json &two = facts["node_shm"][0], &four = facts["node_shm"][1];
  ASSERT_EQ(two["ranks"], 2);
  ASSERT_EQ(four["ranks"], 4);
  struct Case {
    int ranks;
    const char* collective;
    uint64_t stated;
  };
  for (const Case& each : {Case{4, "collective=all_reduce", four["collectives_bytes"]},
                           Case{2, "collective=exchange", two["messages_bytes"]}}) {
    const ShmFolder folder;
    const Program job(jobCommand({.ranks = each.ranks,
                                  .words = {"rounds=100000000", "count=1000", each.collective,
                                            folder.variable(), "HORING_ALGO=all_reduce=direct"},
                                  .before = {"sh", "-c", "echo process $$; exec \"$0\" \"$@\""}}));
    uint64_t taken = 0;
    const auto isTaken = [&] {
      std::vector<std::string> pids;
      std::istringstream words(job.output());
      for (std::string word; words >> word;)
        if (word == "process" && words >> word) pids.push_back(word);
      taken = mappedBytes(folder.path(), pids);
      return taken > each.stated * 0.95;
    };
    EXPECT_TRUE(eventually(isTaken, std::chrono::seconds(20))) << taken << " of " << each.stated;
    EXPECT_LE(taken, each.stated * 1.05) << each.collective;
  }
}

// If it cannot be used at all, sockets serve, and that is logged once.
void expectSockets(const ShmFolder& folder, const std::function<void()>& prepare) {
  Program program(jobCommand({.ranks = 3, .words = {"rounds=3"}, .environment = {folder.variable()}}),
                  prepare);
  const JobOutcome outcome = endOf(program);
  if (outcome.code == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  size_t said = 0;
  const std::string words = "sockets serve instead";
  for (size_t at = 0; (at = outcome.everything.find(words, at)) != std::string::npos; at += words.size())
    ++said;
  EXPECT_EQ(said, 3u) << "by each rank once: " << outcome.everything;
}

TEST(UselessSharedMemory, ThatIsFullIsNoObstacle) {
  const ShmFolder folder;
  expectSockets(folder, [&] {
    mountMemory(folder.path(), "size=4k");
    std::ofstream(folder.path() + "/full") << std::string(8192, 'x');
  });
}

TEST(UselessSharedMemory, ThatMayNotBeWrittenIsNoObstacle) {
  const ShmFolder folder;
  expectSockets(folder, [&] { mountMemory(folder.path(), "size=64m", MS_RDONLY); });
}

TEST(UselessSharedMemory, WithoutInodesIsNoObstacle) {
  const ShmFolder folder;
  expectSockets(folder, [&] { mountMemory(folder.path(), "size=64m,nr_inodes=1"); });
}

TEST(UselessSharedMemory, ThatIsNotThereIsNoObstacle) {
  const ShmFolder folder;
  expectSockets(folder, [&] { std::filesystem::remove(folder.path()); });
}

// Slots without room there would be in memory that only processes of one PID namespace reach.
TEST(SmallSharedMemory, BetweenPidNamespacesIsNoObstacle) {
  const ShmFolder folder;
  const JobOptions options{.ranks = 3,
                           .words = {"rounds=3"},
                           .environment = {folder.variable(), "HORING_DEBUG=info"},
                           .before = {"unshare", "--pid", "--fork", "--mount-proc"}};
  Program program(jobCommand(options), [&] { mountMemory(folder.path(), "size=1m"); });
  const JobOutcome outcome = endOf(program);
  if (outcome.code == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  EXPECT_NE(outcome.everything.find("in another PID namespace"), std::string::npos) << outcome.everything;
}

}  // namespace
}  // namespace horing::test
