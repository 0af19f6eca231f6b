// A rank that is stopped, or killed, while it accesses the memory of other ranks.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "../../temporary_folder.h"
#include "job.h"

namespace horing::test {
namespace {

constexpr int kRanks = 4, kCaught = 2;
constexpr auto kHeardWithin = std::chrono::seconds(25);  // far from the ten minutes of HORING_TIMEOUT_MS

struct Case {
  int signal;
  const char* place;
};
std::string caseName(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.signal == SIGSTOP ? "Stopped" : "Killed") +
         (info.param.place == std::string("in_place=1") ? "InPlace" : "Apart");
}

class CaughtRank : public testing::TestWithParam<Case> {};

// After the failure each other rank writes new values into its memory and finds them there in the end, also after the stopped rank
// has resumed its writes; and memory around it is unchanged. The stopped rank, which finds all its waits satisfied, does not return
// the data it read as a result.
TEST_P(CaughtRank, IsNamedAndWritesNothingLater) {
  const auto [signal, place] = GetParam();
  const TemporaryFolder folder;
  const std::string all_over = folder.path() / "all_over", who = std::to_string(kCaught);
  Program program(jobCommand({.ranks = kRanks,
                              .words = {"HORING_ALGO=peer_write", "lent=1", place, "keep_until=" + all_over,
                                        who + ":trapped=1", who + ":signal=" + std::to_string(signal)}}));
  ASSERT_TRUE(eventually([&] { return countOf(program, "wrote") == kRanks - 1; }, kHeardWithin))
      << program.output() << program.errors();
  if (signal == SIGSTOP) {
    ASSERT_EQ(kill(std::stoi(eventOf(eventsOf(program.output()), "signal", kCaught).text), SIGCONT), 0);
    ASSERT_TRUE(eventually([&] { return countOf(program, "collective") == kRanks; }, kHeardWithin))
        << program.output() << program.errors();
  }
  std::ofstream(all_over) << "now";
  const JobOutcome outcome = endOf(program);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kCaught && signal == SIGKILL) continue;
    const Event heard = eventOf(outcome.events, "collective", rank);
    EXPECT_EQ(heard.code, kRemoteError) << outcome.everything;
    EXPECT_TRUE(namesRank(heard.text, kCaught)) << heard.text;
    if (rank != kCaught) {
      EXPECT_EQ(eventOf(outcome.events, "kept", rank).code, kSuccess) << outcome.everything;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CaughtRank,
                         testing::ValuesIn({Case{SIGSTOP, "in_place=0"}, Case{SIGSTOP, "in_place=1"},
                                            Case{SIGKILL, "in_place=1"}}),
                         caseName);

}  // namespace
}  // namespace horing::test
