// The file of metrics, and the thread that writes it.
#include "comm/guard/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "../temporary_folder.h"

namespace horing {
namespace {

// A pipe that nobody reads stands for a disk that stalls.
TEST(MetricsFile, LetsNobodyWaitForADiskThatStalls) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "horing-job-rank0-42.prom",
                              written = path.string() + ".new";
  ASSERT_EQ(::mkfifo(written.c_str(), 0600), 0);
  const SteadyClock clock;
  CallLog calls(0, 1), launches(kFirstLaunch);
  {
    MetricsFile file(folder.path(), {"job", 0, 42, 1}, calls, launches, clock, Log(LogLevel::kNone));
    const Status started = file.start();
    ASSERT_TRUE(started.ok()) << started.message();
    std::ostringstream text;
    text << std::ifstream(written).rdbuf();
    EXPECT_TRUE(text.str().ends_with("# EOF\n")) << text.str();
    while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MetricsFile, IsTheParentsAlsoWhenAForkedChildDropsIt) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "horing-job-rank0-42.prom";
  const SteadyClock clock;
  CallLog calls(0, 1), launches(kFirstLaunch);
  auto file = std::make_unique<MetricsFile>(folder.path(), MetricsOf{"job", 0, 42, 1}, calls, launches, clock,
                                            Log(LogLevel::kNone));
  ASSERT_TRUE(file->start().ok());
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const pid_t child = ::fork();
  if (child == 0) {
    file.reset();
    ::_exit(0);
  }
  int how = -1;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace horing
