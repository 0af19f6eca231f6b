// A rank that is killed, one that never arrives, one that is stopped.
#include <gtest/gtest.h>
#include <signal.h>

#include "../../sanitizer.h"
#include "job.h"

namespace horing::test {
namespace {

constexpr int kRanks = 4;
constexpr double kHeardWithinMs = 25000;  // far from the ten minutes of HORING_TIMEOUT_MS
const std::string kDeadline = std::to_string(kShortDeadlineMs);

// Aborts on odd ranks, destroys on even ones; continues reducing until it fails.
std::vector<std::string> endlessWords(const std::string& count) {
  return {"rounds=1000000", "count=" + count, "1:end=abort", "3:end=abort"};
}

// Kills `victim` after a while in an all-reduce and checks the errors of the others.
void killAndLook(JobOptions options, int victim) {
  options.words.push_back(std::to_string(victim) + ":signal_after_ms=400");
  const JobOutcome outcome = runJob(options);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.everything;
  const Event killed = eventOf(outcome.events, "signal", victim);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (rank == victim) continue;
    const Event heard = eventOf(outcome.events, "collective", rank);
    EXPECT_EQ(heard.code, kRemoteError) << heard.text;
    EXPECT_TRUE(namesRank(heard.text, victim)) << "rank " << rank << ": " << heard.text;
    EXPECT_LT(heard.at_ms - killed.at_ms, kHeardWithinMs) << "rank " << rank << ": " << heard.text;
    const Event ended = eventOf(outcome.events, rank % 2 ? "abort" : "destroy", rank);
    EXPECT_EQ(ended.code, kSuccess) << ended.text;
    EXPECT_LT(ended.took_ms, kHeardWithinMs);
  }
}

TEST(LostRank, IsNamedOnEveryOtherOverSharedMemory) {
  killAndLook({.words = endlessWords("4000000")}, 2);
}

TEST(LostRank, IsNamedOnEveryOtherThatReadsItsMemory) {
  std::vector<std::string> words = endlessWords("1000000");
  words.insert(words.end(), {"collective=all_gather", "HORING_TESTS_SINGLE_COPY=1"});
  killAndLook({.words = words}, 2);
}

TEST(LostRank, MayBeTheOneThatHostsTheRendezvous) {
  killAndLook({.words = endlessWords("4000000")}, 0);
}

TEST(LostRank, IsNamedAcrossNodes) {
  HORING_NEEDS_NODES();
  const JobOptions options{.run = {"--nodes", "2", "--rate", "200"}, .words = endlessWords("4000000")};
  killAndLook(options, 3);
  killAndLook(options, 0);
}

TEST(LostRank, MayAbortOrLeaveBetweenCollectives) {
  for (const char* end : {"abort", "leave", "destroy"}) {
    const JobOutcome outcome = runJob({.words = {"rounds=2", "2:rounds=1", std::string("2:end=") + end}});
    for (const int rank : {0, 1, 3}) {
      const Event heard = eventOf(outcome.events, "collective", rank);
      EXPECT_EQ(heard.code, kRemoteError) << outcome.everything;
      EXPECT_TRUE(namesRank(heard.text, 2)) << heard.text;
    }
  }
}

TEST(LateRank, IsNamedOnEveryOtherWhenTheDeadlinePasses) {
  for (const int missing : {2, 0}) {
    const JobOutcome outcome =
        runJob({.words = {"HORING_INIT_TIMEOUT_MS=" + kDeadline, std::to_string(missing) + ":absent=1"}});
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == missing) continue;
      const Event heard = eventOf(outcome.events, "join", rank);
      EXPECT_EQ(heard.code, kTimeout) << heard.text;
      EXPECT_TRUE(namesRank(heard.text, missing)) << heard.text;
      EXPECT_LT(heard.took_ms, kHeardWithinMs);
    }
  }
}

// It lives, so only the deadline of the call ends the waiting; in a ring most ranks do not wait for the culprit itself.
TEST(LateRank, IsNamedWhenItDoesNotCallBeforeTheDeadline) {
  for (const char* late_round : {"0", "3"}) {
    const JobOutcome outcome =
        runWithLateCaller({.words = {"HORING_TIMEOUT_MS=" + kDeadline, "rounds=5", "HORING_ALGO=ring",
                                     std::string("late_round=") + late_round}},
                          2);
    for (int rank = 0; rank < kRanks; ++rank) {
      const Event heard = eventOf(outcome.events, "collective", rank);
      EXPECT_EQ(heard.code, kTimeout) << heard.text;
      EXPECT_NE(heard.text.find(std::string("rank 2 never called all_reduce #") + late_round +
                                "; ranks 0, 1, 3 have waited for " + kDeadline + " ms"),
                std::string::npos)
          << heard.text;
    }
  }
}

// The waiting ranks report at their deadline, and the stopped one learns of it when it continues.
void stopAndLook(const JobOptions& options, int stopped) {
  Program program(jobCommand(options));
  ASSERT_TRUE(eventually([&] { return countOf(program, "end") == options.ranks - 1; }))
      << program.output() << program.errors();
  const Event stop = eventOf(eventsOf(program.output()), "signal", stopped);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (rank == stopped) continue;
    const Event heard = eventOf(eventsOf(program.output()), "collective", rank);
    EXPECT_EQ(heard.code, kTimeout) << heard.text;
    EXPECT_NE(heard.text.find("HORING_TIMEOUT_MS"), std::string::npos) << heard.text;
    EXPECT_LT(heard.at_ms - stop.at_ms, kHeardWithinMs);
    EXPECT_TRUE(namesRank(heard.text, stopped)) << heard.text;
  }
  ASSERT_EQ(kill(std::stoi(stop.text), SIGCONT), 0);
  const JobOutcome outcome = endOf(program);
  EXPECT_EQ(eventOf(outcome.events, "collective", stopped).code, kTimeout) << outcome.everything;
}

// Without a watch for silence, see silent_rank_test.cpp.
TEST(StoppedRank, IsWaitedForUntilTheDeadline) {
  for (const int ranks : {2, 4})
    stopAndLook({.ranks = ranks,
                 .words = {"HORING_HEARTBEAT_MS=0", "HORING_TIMEOUT_MS=" + kDeadline, "rounds=1000000",
                           "1:signal_after_ms=300", "1:signal=" + std::to_string(SIGSTOP)}},
                1);
}

}  // namespace
}  // namespace horing::test
