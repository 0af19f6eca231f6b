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

TEST(SmallSharedMemory, IsNamedWithItsBytesBeforeItIsUsed) {
  const ShmFolder folder;
  const JobOptions options{
      .ranks = 3,
      .environment = {folder.variable(), "HORING_WINDOW=4", "HORING_SLOTS=20", "HORING_SLICE_BYTES=65536"}};
  Program program(jobCommand(options), [&] { mountOneMiB(folder.path()); });
  const JobOutcome outcome = endOf(program);
  if (outcome.code == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  // No rank was ended by a signal (SIGBUS).
  EXPECT_LT(outcome.code, 128) << outcome.everything;
  int found_it = 0;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const Event heard = failureOf(outcome.events, rank);
    EXPECT_TRUE(heard.code == kSystemError || heard.code == kRemoteError) << outcome.everything;
    found_it += heard.code == kSystemError;
    EXPECT_NE(heard.text.find(folder.path() + " is too small"), std::string::npos) << heard.text;
    EXPECT_NE(heard.text.find(" bytes, "), std::string::npos) << heard.text;
    EXPECT_NE(heard.text.find("HORING_SHM_DIR"), std::string::npos) << heard.text;
  }
  EXPECT_GE(found_it, 1);
}

TEST(SmallSharedMemory, IsEnoughForSmallSlots) {
  const ShmFolder folder;
  const JobOptions options{
      .ranks = 3,
      .environment = {folder.variable(), "HORING_WINDOW=4", "HORING_SLOTS=5", "HORING_SLICE_BYTES=4096"}};
  Program program(jobCommand(options), [&] { mountOneMiB(folder.path()); });
  const JobOutcome outcome = endOf(program);
  if (outcome.code == kCannotMount) GTEST_SKIP() << "this process may mount nothing";
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

}  // namespace
}  // namespace horing::test
