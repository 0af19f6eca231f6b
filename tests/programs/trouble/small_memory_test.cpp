// A directory for shared memory that is too small, as containers have it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include "job.h"

namespace horing::test {
namespace {

constexpr int kCannotMount = 77;

void writeText(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY);
  [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
  close(fd);
}

// Mounts 1 MiB of memory on the folder, for this process and its children only.
void mountOneMiB(const std::string& folder) {
  const std::string user = "0 " + std::to_string(geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(getegid()) + " 1";
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kCannotMount);
    writeText("/proc/self/setgroups", "deny");
    writeText("/proc/self/uid_map", user);
    writeText("/proc/self/gid_map", group);
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("horing", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") != 0)
    _exit(kCannotMount);
}

// Slots that the directory has no room for lie in memory of the processes.
TEST(SmallSharedMemory, IsNoObstacle) {
  const ShmFolder folder;
  const JobOptions options{.ranks = 3, .environment = {folder.variable(), "HORING_DEBUG=info"}};
  Program program(jobCommand(options), [&] { mountOneMiB(folder.path()); });
  const JobOutcome outcome = endOf(program);
  if (outcome.code == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  EXPECT_NE(outcome.everything.find(folder.path() + " is full: slots of rank "), std::string::npos)
      << outcome.everything;
}

}  // namespace
}  // namespace horing::test
