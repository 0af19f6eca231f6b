// The files of metrics of a running job.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "../../temporary_folder.h"
#include "job.h"

namespace horing::test {
namespace {

std::string textOf(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool counts(const std::string& text) {
  return text.find("collective=\"all_reduce\",by=\"host\"} ") != std::string::npos &&
         text.ends_with("# EOF\n");
}

TEST(Metrics, AreThereOfEachRankAsLongAsTheJobRuns) {
  const TemporaryFolder folder;
  const std::string variable = "HORING_METRICS=" + folder.path().string();
  const Program job(
      jobCommand({.ranks = 2, .words = {"rounds=1000000", "count=100", "1:each_late_ms=50", variable}}));
  std::string late;
  EXPECT_TRUE(eventually([&] {
    int good = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().extension() != ".prom") continue;
      const std::string text = textOf(entry.path());
      good += counts(text);
      if (text.find("rank=\"0\"") != std::string::npos &&
          text.find("peer=\"1\",for=\"data\"} ") != std::string::npos)
        late = text;
    }
    return good == 2 && !late.empty();
  })) << job.output()
      << job.errors();
}

TEST(Metrics, AreRemovedByAJobThatEnds) {
  const TemporaryFolder folder;
  const JobOutcome outcome = runJob(
      {.ranks = 2, .words = {"rounds=3", "each_late_ms=600", "HORING_METRICS=" + folder.path().string()}});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Metrics, WithoutAFolderAreAWarningAndNoFailure) {
  const JobOutcome outcome =
      runJob({.ranks = 2, .words = {"rounds=3", "each_late_ms=600", "HORING_METRICS=/nowhere"}});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
  EXPECT_NE(outcome.everything.find("HORING_METRICS: cannot write /nowhere/horing-"), std::string::npos)
      << outcome.everything;
}

}  // namespace
}  // namespace horing::test
