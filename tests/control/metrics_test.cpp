// The text of metrics; the guide and the dashboard name the metrics that exist.
#include "control/metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace horing {
namespace {

std::string fileText(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(HORING_DOCS_FOLDER) + "/" + name).rdbuf();
  return text.str();
}

std::set<std::string> wordsOf(const std::string& text, const char* pattern) {
  std::set<std::string> words;
  const std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
    words.insert((*it)[1]);
  return words;
}

class Metrics : public ::testing::Test {
 protected:
  void SetUp() override {
    calls_.recorder().begin(
        {.sequence = 0, .count = 10, .begun_ns = 0, .collective = Collective::kAllGather});
    calls_.recorder().end(0, 2'000'000'000, Outcome::kDone);
    calls_.recorder().begin({.sequence = 1, .begun_ns = 3'000'000'000});
    for (int peer = 0; peer < 40; ++peer) {
      PeerWaits waits;
      waits.add({.peer = peer, .for_room = true});
      calls_.waitTimes().add(waits, (peer + 1) * 1'500'000);
    }
  }
  std::string text() const {
    return metricsText({"ab12", 3, 47, 64}, calls_, launches_, 4'500'000'000, 1234);
  }

  CallLog calls_{0, 64};
  CallLog launches_{kFirstLaunch};
};

TEST_F(Metrics, SayWhatWasCalledAndWaitedFor) {
  for (const char* line : {
           "horing_ranks{comm=\"ab12\",rank=\"3\",pid=\"47\"} 64\n",
           "horing_calls_total{comm=\"ab12\",rank=\"3\",pid=\"47\",collective=\"all_gather\",by=\"host\"} "
           "1\n",
           "horing_call_bytes_total{comm=\"ab12\",rank=\"3\",pid=\"47\",collective=\"all_gather\",by="
           "\"host\"} 40\n",
           "horing_call_seconds_total{comm=\"ab12\",rank=\"3\",pid=\"47\",collective=\"all_gather\",by="
           "\"host\"} "
           "2.000000\n",
           "horing_wait_seconds_total{comm=\"ab12\",rank=\"3\",pid=\"47\",peer=\"39\",for=\"room\"} "
           "0.060000\n",
           "horing_call_age_seconds{comm=\"ab12\",rank=\"3\",pid=\"47\"} 1.500000\n",
           "horing_written_timestamp_seconds{comm=\"ab12\",rank=\"3\",pid=\"47\"} 1.234000\n",
       })
    EXPECT_NE(text().find(line), std::string::npos) << line << text();
  EXPECT_EQ(wordsOf(text(), "peer=\"([0-9]+)\"").size(), kMostMetricPeers);
}

// One line of the format for each line, families one after the other, the end last: what a reader of OpenMetrics insists on.
TEST_F(Metrics, AreOpenMetrics) {
  const std::regex line_form(
      "# (TYPE|HELP) (horing_[a-z_]+) .+|(horing_[a-z_]+)\\{([a-z]+=\"[^\"]*\",?)+\\} [0-9]+(\\.[0-9]+)?|# "
      "EOF");
  std::istringstream lines(text());
  std::string line, family, last;
  std::set<std::string> families;
  while (std::getline(lines, line)) {
    last = line;
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, line_form)) << line;
    if (match[1] == "TYPE") {
      family = match[2];
      EXPECT_TRUE(families.insert(family).second) << family;
    }
    if (match[3].matched) {
      EXPECT_TRUE(match[3] == family || match[3] == family + "_total") << line;
    }
  }
  EXPECT_EQ(last, "# EOF");
}

TEST_F(Metrics, AreExplainedInTheGuideAndShownByTheDashboard) {
  const std::set<std::string> here = wordsOf(text(), "\n(horing_[a-z_]+)\\{");
  const std::set<std::string> all = [&] {
    std::set<std::string> words = here;
    words.insert("horing_ranks");
    return words;
  }();
  EXPECT_EQ(all.size(), 7u);
  EXPECT_EQ(wordsOf(fileText("metrics.md"), "`(horing_[a-z_]+)`"), all);
  const std::set<std::string> shown = wordsOf(fileText("dashboard.json"), "(horing_[a-z_]+)");
  EXPECT_FALSE(shown.empty());
  for (const std::string& name : shown) EXPECT_TRUE(all.contains(name)) << name;
}

}  // namespace
}  // namespace horing
