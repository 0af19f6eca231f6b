// Ranks that fall silent without ending, with default settings: stopped, or behind a cut cable. No socket breaks, and the deadline
// of a collective is ten minutes away; yet every other rank soon learns which rank it is.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "job.h"

namespace horing::test {
namespace {

// The verdict comes within 5 s where there are cores to spare; far from any deadline in any case.
constexpr auto kHeardWithin = std::chrono::seconds(25);

class SilentRank : public testing::TestWithParam<int> {};

// The stopped rank may be the one that hosts the rendezvous.
TEST_P(SilentRank, IsNamedOnEveryOtherWhenItWasStopped) {
  constexpr int kRanks = 4;
  const int stopped = GetParam();
  const std::string who = std::to_string(stopped);
  Program program(jobCommand({.ranks = kRanks,
                              .words = {"rounds=100000000", "count=1000", who + ":signal_after_ms=300",
                                        who + ":signal=" + std::to_string(SIGSTOP)}}));
  ASSERT_TRUE(eventually([&] { return countOf(program, "end") == kRanks - 1; }, kHeardWithin))
      << program.output() << program.errors();
  const std::vector<Event> events = eventsOf(program.output());
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == stopped) continue;
    const Event heard = eventOf(events, "collective", rank);
    EXPECT_EQ(heard.code, kRemoteError) << heard.text;
    EXPECT_TRUE(namesRank(heard.text, stopped)) << heard.text;
    EXPECT_NE(heard.text.find("has been silent"), std::string::npos) << heard.text;
    EXPECT_NE(heard.text.find("pid " + eventOf(events, "signal", stopped).text), std::string::npos)
        << heard.text;
  }
  // When it continues, it learns of the failure, too.
  ASSERT_EQ(kill(std::stoi(eventOf(events, "signal", stopped).text), SIGCONT), 0);
  const JobOutcome outcome = endOf(program);
  EXPECT_EQ(eventOf(outcome.events, "collective", stopped).code, kRemoteError) << outcome.everything;
}

INSTANTIATE_TEST_SUITE_P(Number, SilentRank, testing::Values(0, 2), testing::PrintToStringParamName());

TEST(ComputingRank, IsWaitedForThoughItIsSilentInItsConnections) {
  const JobOutcome outcome =
      runJob({.ranks = 3, .words = {"rounds=2", "late_round=1", "1:call_late_ms=5000"}});
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

// TCP sends lost packets again. With twice the time for silence: on a busy machine ip(8) may take a second to reconnect.
TEST(CutLink, IsSurvivedWhenItIsBackAfterTwoSeconds) {
  HORING_NEEDS_NODES();
  Program program(jobCommand({.ranks = 4,
                              .run = {"--nodes", "2", "--rate", "200"},
                              .words = {"HORING_HEARTBEAT_MS=1000", "rounds=600", "count=100000",
                                        "0:signal=0", "0:signal_after_ms=300"}}));
  ASSERT_TRUE(eventually([&] { return countOf(program, "signal") == 1; }, kHeardWithin)) << program.errors();
  EXPECT_EQ(countOf(program, "collective"), 0) << "done too early to be disturbed";
  ASSERT_TRUE(setLink(program.pid(), 1, "down"));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ASSERT_TRUE(setLink(program.pid(), 1, "up"));
  const JobOutcome outcome = endOf(program);
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

constexpr int kLeastSockets = 3;  // its listener, a link and the control connection

// All sockets of the node, including listening ones, several times in one collective after the other.
class DestroyedSockets : public testing::TestWithParam<int> {};

TEST_P(DestroyedSockets, AreMadeAgainAndNothingIsLost) {
  HORING_NEEDS_NODES();
  const std::string victim = std::to_string(GetParam());
  Program program(jobCommand(
      {.ranks = 4,
       .run = {"--nodes", "4", "--rate", "200"},
       .words = {"rounds=300", "count=100000", victim + ":signal=0", victim + ":signal_after_ms=300"}}));
  ASSERT_TRUE(eventually([&] { return countOf(program, "signal") == 1; }, kHeardWithin)) << program.errors();
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(countOf(program, "collective"), 0) << "done too early to be disturbed";
    EXPECT_TRUE(destroySockets(program.pid(), GetParam(), kLeastSockets)) << program.errors();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const JobOutcome outcome = endOf(program);
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

// The first of them hosts the rendezvous.
INSTANTIATE_TEST_SUITE_P(OfRank, DestroyedSockets, testing::Values(0, 2), testing::PrintToStringParamName());

// A rank that computes does not see that its listener is gone, and refuses reconnecting peers.
TEST_P(DestroyedSockets, OfARankThatComputesDoNotLookLikeItsDeath) {
  HORING_NEEDS_NODES();
  const std::string victim = std::to_string(GetParam());
  Program program(jobCommand({.ranks = 4,
                              .run = {"--nodes", "4", "--rate", "200"},
                              .words = {"rounds=2", "late_round=1", victim + ":call_late_ms=6000",
                                        victim + ":signal=0", victim + ":signal_after_ms=1000"}}));
  ASSERT_TRUE(eventually([&] { return countOf(program, "signal") == 1; }, kHeardWithin)) << program.errors();
  EXPECT_EQ(countOf(program, "collective"), 0) << "done too early to be disturbed";
  EXPECT_TRUE(destroySockets(program.pid(), GetParam(), kLeastSockets)) << program.errors();
  const JobOutcome outcome = endOf(program);
  EXPECT_EQ(outcome.code, 0) << outcome.everything;
}

// The ranks of node 0 learn about those of node 1, and the other way round.
TEST(CutLink, IsToldToTheRanksAtBothEnds) {
  HORING_NEEDS_NODES();
  Program program(
      jobCommand({.ranks = 4,
                  .run = {"--nodes", "2", "--rate", "1000"},
                  .words = {"rounds=100000000", "count=100000", "0:signal=0", "0:signal_after_ms=300"}}));
  ASSERT_TRUE(eventually([&] { return countOf(program, "signal") == 1; }, kHeardWithin)) << program.errors();
  ASSERT_TRUE(setLink(program.pid(), 1, "down"));
  ASSERT_TRUE(eventually([&] { return countOf(program, "end") == 4; }, kHeardWithin))
      << program.output() << program.errors();
  const std::vector<Event> events = eventsOf(program.output());
  for (int rank = 0; rank < 4; ++rank) {
    const Event heard = eventOf(events, "collective", rank);
    EXPECT_EQ(heard.code, kRemoteError) << heard.text;
    const bool named = rank < 2 ? heard.text.find("ranks 2, 3 ") != std::string::npos ||
                                      namesRank(heard.text, 2) || namesRank(heard.text, 3)
                                : namesRank(heard.text, 0);
    EXPECT_TRUE(named) << "rank " << rank << ": " << heard.text;
    EXPECT_NE(heard.text.find("been silent"), std::string::npos) << heard.text;
  }
}

}  // namespace
}  // namespace horing::test
