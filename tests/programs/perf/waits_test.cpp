#include "perf/waits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace horing::perf {
namespace {

constexpr const char* kMetrics =
    "# TYPE horing_wait_seconds counter\n"
    "horing_wait_seconds_total{comm=\"x\",rank=\"0\",pid=\"7\",peer=\"1\",for=\"data\"} 0.500000\n"
    "horing_wait_seconds_total{comm=\"x\",rank=\"0\",pid=\"7\",peer=\"1\",for=\"room\"} 0.250000\n"
    "horing_wait_seconds_total{comm=\"x\",rank=\"0\",pid=\"7\",peer=\"12\",for=\"data\"} 1.500000\n"
    "horing_wait_seconds_total{comm=\"x\",peer=\"\",for=\"data\"} 9\n"
    "horing_ranks{comm=\"x\",rank=\"0\",pid=\"7\"} 13\n# EOF";

TEST(Waits, AreReadFromMetrics) {
  const std::vector<Wait> waits = waitsIn(kMetrics);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].peer, 12);
  EXPECT_EQ(waits[0].data_s, 1.5);
  EXPECT_EQ(waits[1].peer, 1);
  EXPECT_EQ(waits[1].data_s, 0.5);
  EXPECT_EQ(waits[1].room_s, 0.25);
  EXPECT_TRUE(waitsIn("").empty());
  EXPECT_NE(waitsText({{}, waits}).find("#     1     12       1.500       0.000\n"), std::string::npos)
      << waitsText({{}, waits});
  EXPECT_TRUE(
      waitsText({{}, {}}).starts_with("# No rank waited for another, or the metrics could not be written"))
      << waitsText({{}, {}});
}

TEST(MetricsFolder, FindsTheFileOfARankOfThisProcessAndIsRemoved) {
  std::string path;
  {
    Result<MetricsFolder> folder = MetricsFolder::open();
    ASSERT_TRUE(folder.ok()) << folder.status().toString();
    path = folder.value().path();
    EXPECT_TRUE(folder.value().waitsOf(3).empty());
    std::ofstream(path + "/horing-x-rank3-1.prom")
        << "horing_wait_seconds_total{peer=\"5\",for=\"data\"} 1\n";
    EXPECT_TRUE(folder.value().waitsOf(3).empty()) << "of another process";
    std::ofstream(path + "/horing-x-rank3-" + std::to_string(getpid()) + ".prom") << kMetrics;
    EXPECT_EQ(folder.value().waitsOf(3).size(), 2u);
    EXPECT_TRUE(folder.value().waitsOf(13).empty());
    for (const char* const name : {"/horing-a-rank3-", "/horing-y-rank3-"}) {
      const std::string left = path + name + std::to_string(getpid()) + ".prom";
      std::ofstream(left) << "horing_wait_seconds_total{peer=\"5\",for=\"data\"} 1\n";
      std::filesystem::last_write_time(left,
                                       std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    }
    EXPECT_EQ(folder.value().waitsOf(3).size(), 2u) << "not of an earlier job";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A process that is killed does not remove its folder. The next one does, and leaves that of a process that lives.
TEST(MetricsFolder, OfAKilledProcessIsRemovedByTheNext) {
  const std::filesystem::path left =
      std::filesystem::temp_directory_path() / ("horing_perf_waits_test_" + std::to_string(getpid()));
  std::filesystem::create_directory(left);
  std::ofstream(left / "horing-x-rank3-1.prom") << kMetrics;
  const Result<MetricsFolder> lives = MetricsFolder::open();
  ASSERT_TRUE(lives.ok()) << lives.status().toString();
  EXPECT_FALSE(std::filesystem::exists(left));
  const Result<MetricsFolder> next = MetricsFolder::open();
  ASSERT_TRUE(next.ok()) << next.status().toString();
  EXPECT_TRUE(std::filesystem::exists(lives.value().path()));
}

TEST(MetricsFolder, OfTheEnvironmentHasToBeWritable) {
  setenv("HORING_METRICS", "/nowhere", 1);
  const Result<MetricsFolder> folder = MetricsFolder::open();
  unsetenv("HORING_METRICS");
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("cannot write to /nowhere, the folder of HORING_METRICS"),
            std::string::npos)
      << folder.status().message();
}

TEST(MetricsFolder, OfTheEnvironmentStays) {
  const std::string path = ::testing::TempDir() + "/waits_test_" + std::to_string(getpid());
  std::filesystem::create_directory(path);
  setenv("HORING_METRICS", path.c_str(), 1);
  { EXPECT_EQ(MetricsFolder::open().value().path(), path); }
  unsetenv("HORING_METRICS");
  EXPECT_TRUE(std::filesystem::remove(path));
}

}  // namespace
}  // namespace horing::perf
