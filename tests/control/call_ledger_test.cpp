// The rank to blame, from the ranks' reports.
#include "control/call_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/call_log.h"

namespace horing {
namespace {

constexpr int64_t kMs = 1'000'000;

FlightRecord callOf(Collective collective, uint64_t count = 1000) {
  FlightRecord record;
  record.collective = collective;
  record.count = count;
  return record;
}

// Ranks whose calls a test writes down, and the rendezvous' ledger that asks them.
class Ranks {
 public:
  explicit Ranks(int ranks) : logs_(static_cast<size_t>(ranks)), present_(logs_.size(), true) {}

  void call(int rank, const FlightRecord& record) {
    FlightRecord numbered = record;
    numbered.sequence = log(rank).recorder().begun();
    log(rank).recorder().begin(numbered);
  }
  void callAll(const FlightRecord& record) {
    for (int rank = 0; rank < size(); ++rank) call(rank, record);
  }
  void finish(int rank) { log(rank).recorder().end(log(rank).recorder().begun() - 1, 1, Outcome::kDone); }
  void waitsFor(int rank, int other) {
    log(rank).waits(log(rank).recorder().begun() - 1, {{other}, "lane 0: waits for data"});
  }
  // As Communicator::leave().
  void leaves(int rank) {
    if (log(rank).recorder().begun() > 0) report(rank, CallReport::Kind::kAnswer);
    present_[static_cast<size_t>(rank)] = false;
    ledger_.left(rank, size());
  }
  void fallsSilent(int rank) { silent_.push_back(rank); }

  // The rank reports its latest call; all present ranks answer the inquiry.
  void report(int rank, CallReport::Kind kind, uint32_t timeout_ms = 0) {
    CallReport report = log(rank).report(log(rank).recorder().begun() - 1);
    report.kind = kind;
    report.timeout_ms = timeout_ms;
    ledger_.report(rank, size(), report, now_ns_);
    for (const CallInquiry& inquiry : ledger_.takeInquiries()) {
      ++inquiries_;
      for (int other = 0; other < size(); ++other) {
        if (!isPresent(other) || std::count(silent_.begin(), silent_.end(), other)) continue;
        CallReport answer = log(other).report(inquiry.sequence);
        answer.round = inquiry.round;
        ledger_.report(other, size(), answer, now_ns_);
      }
    }
  }
  std::optional<CallVerdict> verdict() {
    return ledger_.judge({size(), static_cast<int>(std::count(present_.begin(), present_.end(), true)),
                          [this](int rank) { return isPresent(rank); }},
                         now_ns_);
  }
  std::string reason() {
    const auto judged = verdict();
    return judged ? judged->reason : "nothing";
  }
  void wait(int64_t ms) { now_ns_ += ms * kMs; }
  int inquiries() const { return inquiries_; }
  int64_t nextLookNs() const { return ledger_.nextLookNs(); }
  int64_t nowNs() const { return now_ns_; }

 private:
  int size() const { return static_cast<int>(logs_.size()); }
  CallLog& log(int rank) { return logs_[static_cast<size_t>(rank)]; }
  bool isPresent(int rank) const { return present_[static_cast<size_t>(rank)]; }

  std::vector<CallLog> logs_;
  std::vector<bool> present_;
  std::vector<int> silent_;
  CallLedger ledger_;
  int64_t now_ns_ = 5000 * kMs;
  int inquiries_ = 0;
};

constexpr auto kStalled = CallReport::Kind::kStalled;
constexpr auto kMismatch = CallReport::Kind::kMismatch;
constexpr auto kOverdue = CallReport::Kind::kOverdue;

TEST(CallLedger, SaysNothingWhileARankIsMerelySlow) {
  Ranks ranks(4);
  ranks.callAll(callOf(Collective::kAllReduce));
  for (const int rank : {0, 1, 2, 3}) ranks.finish(rank);
  for (const int rank : {0, 1, 3}) ranks.call(rank, callOf(Collective::kAllReduce));
  for (int round = 0; round < 1000; ++round) {
    for (const int rank : {0, 1, 3}) ranks.report(rank, kStalled);
    ranks.wait(2000);
    EXPECT_FALSE(ranks.verdict());
    EXPECT_EQ(ranks.nextLookNs(), INT64_MAX);
  }
  EXPECT_LE(ranks.inquiries(), 1000) << "one inquiry serves all that stall in one moment";
}

TEST(CallLedger, BlamesTheMinorityAtOnce) {
  Ranks ranks(4);
  ranks.callAll(callOf(Collective::kAllReduce));
  for (const int rank : {0, 1, 2}) ranks.call(rank, callOf(Collective::kAllGather));
  ranks.call(3, callOf(Collective::kAllReduce));
  ranks.report(0, kStalled);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 3);
  EXPECT_EQ(ranks.verdict()->code, Code::kInvalidUsage);
  EXPECT_EQ(ranks.reason(),
            "ranks disagree about call #1: rank 3 called all_reduce (1000 x float32, sum), ranks 0-2 called "
            "all_gather "
            "(1000 x float32). Every rank must call the same collectives in the same order with the same "
            "count, type, operation, "
            "root and algorithm of the call");
}

TEST(CallLedger, SeesADifferenceInEachArgument) {
  FlightRecord common = callOf(Collective::kReduce);
  common.root = 1;
  common.algorithm = "chain";
  for (int which = 0; which < 7; ++which) {
    FlightRecord other = common;
    if (which == 0) other.collective = Collective::kReduceScatter;
    if (which == 1) other.count = 0;
    if (which == 2) other.type = DataType::kInt32;
    if (which == 3) other.op = RedOp::kMax;
    if (which == 4) other.root = 2;
    if (which == 5) other.algorithm = "binomial";
    if (which == 6) other.algorithm = nullptr;
    Ranks ranks(3);
    for (const int rank : {0, 1}) ranks.call(rank, common);
    ranks.call(2, other);
    ranks.report(1, kStalled);
    ASSERT_TRUE(ranks.verdict()) << which;
    EXPECT_EQ(ranks.verdict()->rank, 2);
  }
}

TEST(CallLedger, LeavesTheOperationOfAGatherOutOfIt) {
  Ranks ranks(2);
  FlightRecord record = callOf(Collective::kAllGather);
  ranks.call(0, record);
  record.op = RedOp::kMax;
  ranks.call(1, record);
  ranks.report(0, kStalled);
  ranks.wait(5000);
  EXPECT_EQ(ranks.reason(), "nothing");
}

TEST(CallLedger, RemembersACallThatWasCompleteForTheRankThatDiffers) {
  Ranks ranks(3);
  ranks.callAll(callOf(Collective::kAllReduce));
  for (const int rank : {0, 1}) ranks.call(rank, callOf(Collective::kAllReduce));
  ranks.call(2, callOf(Collective::kAllReduce, 5));
  for (int more = 0; more < 20; ++more) {
    ranks.finish(2);
    ranks.call(2, callOf(Collective::kAllReduce));
  }
  ranks.report(0, kStalled);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 2);
}

TEST(CallLedger, WaitsAMomentForAMajority) {
  Ranks ranks(4);
  ranks.call(0, callOf(Collective::kAllReduce));
  ranks.call(3, callOf(Collective::kAllGather));
  ranks.report(0, kMismatch);
  EXPECT_EQ(ranks.reason(), "nothing");
  EXPECT_GT(ranks.nextLookNs(), ranks.nowNs());
  for (const int rank : {1, 2}) ranks.call(rank, callOf(Collective::kAllReduce));
  ranks.wait(200);
  ranks.report(1, kStalled);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 3);
}

TEST(CallLedger, NamesBothWhereThereIsNoMajority) {
  Ranks ranks(4);
  ranks.call(0, callOf(Collective::kAllReduce));
  ranks.call(3, callOf(Collective::kAllGather));
  ranks.report(0, kMismatch);
  ranks.wait(1000);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, -1);
  EXPECT_NE(ranks.reason().find("rank 0 called all_reduce"), std::string::npos) << ranks.reason();
  EXPECT_NE(ranks.reason().find("rank 3 called all_gather"), std::string::npos) << ranks.reason();
}

TEST(CallLedger, NamesAtTheDeadlineWhoNeverCalled) {
  Ranks ranks(8);
  for (int call = 0; call < 1204; ++call) {
    ranks.callAll(callOf(Collective::kAllReduce));
    for (int rank = 0; rank < 8; ++rank) ranks.finish(rank);
  }
  for (const int rank : {0, 1, 2, 3, 4, 6, 7}) ranks.call(rank, callOf(Collective::kAllReduce));
  ranks.waitsFor(3, 2);  // a ring: most do not wait for rank 5 itself
  ranks.report(3, kOverdue, 600'000);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 5);
  EXPECT_EQ(ranks.verdict()->code, Code::kTimeout);
  EXPECT_EQ(
      ranks.reason(),
      "rank 5 never called all_reduce #1204; ranks 0-4, 6, 7 have waited for 600000 ms (HORING_TIMEOUT_MS)");
}

TEST(CallLedger, NamesAtTheDeadlineWhoDoesNotAnswer) {
  Ranks ranks(4);
  ranks.callAll(callOf(Collective::kAllReduce));
  ranks.fallsSilent(2);
  ranks.report(2, kStalled);  // its last words
  ranks.wait(1000);
  ranks.report(0, kOverdue, 1000);
  EXPECT_EQ(ranks.reason(), "nothing");
  ranks.wait(500);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 2);
  EXPECT_NE(ranks.reason().find("rank 2 did not answer"), std::string::npos) << ranks.reason();
}

// As on a busy machine, where no control thread gets to answer in time.
TEST(CallLedger, BlamesNoneAtTheDeadlineIfMostAreSilentOrNeverCalled) {
  for (const bool silent : {true, false})
    for (const int exceptions : {2, 3, 4}) {
      Ranks ranks(4);
      const int first = 4 - exceptions;
      for (int rank = 0; rank < (silent ? 4 : first); ++rank)
        ranks.call(rank, callOf(Collective::kAllReduce));
      for (int rank = first; silent && rank < 4; ++rank) ranks.fallsSilent(rank);
      if (!silent && first == 0) continue;  // nobody waits
      ranks.report(0, kOverdue, 1000);
      ranks.wait(500);
      ASSERT_TRUE(ranks.verdict());
      EXPECT_EQ(ranks.verdict()->rank, exceptions == 2 ? 2 : -1) << ranks.reason();
      EXPECT_NE(ranks.reason().find(silent ? "did not answer" : "never called"), std::string::npos)
          << ranks.reason();
    }
}

// It never called, since it waits for the silent ones.
TEST(CallLedger, BlamesNoLateRankWhereMostAreSilent) {
  Ranks ranks(6);
  ranks.call(0, callOf(Collective::kAllReduce));
  for (int rank = 2; rank < 6; ++rank) ranks.fallsSilent(rank);
  ranks.report(0, kOverdue, 1000);
  ranks.wait(500);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, -1) << ranks.reason();
}

TEST(CallLedger, NamesAtOnceWhoLeftBeforeTheCall) {
  for (const int calls : {0, 2}) {
    Ranks ranks(3);
    for (int call = 0; call < calls; ++call) {
      ranks.callAll(callOf(Collective::kAllReduce));
      for (int rank = 0; rank < 3; ++rank) ranks.finish(rank);
    }
    for (const int rank : {0, 1}) ranks.call(rank, callOf(Collective::kAllReduce));
    ranks.report(0, kStalled);
    EXPECT_EQ(ranks.reason(), "nothing");
    ranks.leaves(2);
    ASSERT_TRUE(ranks.verdict());
    EXPECT_EQ(ranks.verdict()->rank, 2);
    EXPECT_EQ(ranks.verdict()->code, Code::kRemoteError);
    EXPECT_EQ(ranks.reason(),
              formatString("rank 2 left (finalized or destroyed the communicator) after %d calls, and "
                           "ranks 0, 1 wait in all_reduce #%d: every rank must make all calls before "
                           "it leaves",
                           calls, calls));
  }
}

TEST(CallLedger, DoesNotBlameWhoLeftAfterTheCall) {
  Ranks ranks(3);
  ranks.callAll(callOf(Collective::kAllReduce));
  ranks.finish(2);
  ranks.leaves(2);
  ranks.report(0, kStalled);
  EXPECT_EQ(ranks.reason(), "nothing");
  ranks.finish(0);
  ranks.finish(1);
  ranks.report(0, kStalled);
  EXPECT_EQ(ranks.reason(), "nothing");
}

// Of another part, root or plan there may have been more.
TEST(CallLedger, NamesWhoNeverReplayedWhatAKernelWaitsIn) {
  const ReplayNumber number{.collective = 7, .algorithm = 5, .root = 1000, .part = 63, .run = 12345};
  EXPECT_EQ(ReplayNumber::decoded(number.encoded()), number);
  const uint64_t sequence = number.encoded();
  CallLog waits(kFirstLaunch), never(kFirstLaunch);
  const auto ran = [&](uint64_t runs) {
    return [=] {
      std::vector<ReplayRuns> all(2, {runs, runs, number});
      all[0].of.run = 0;
      all[1] = {20000, 20000, {.collective = 7, .algorithm = 5, .root = 1000, .part = 62}};
      return all;
    };
  };
  waits.answerReplaysFrom(ran(12346));
  never.answerReplaysFrom(ran(12345));
  CallLedger ledger;
  const auto report = [&](int rank, const CallLog& log, CallReport::Kind kind) {
    CallReport said = log.report(sequence);
    said.kind = kind;
    said.timeout_ms = kind == CallReport::Kind::kOverdue ? 6000 : 0;
    said.round = 1;
    ledger.report(rank, 2, said, 0);
  };
  report(0, waits, CallReport::Kind::kOverdue);
  EXPECT_EQ(ledger.takeInquiries().size(), 1u);
  report(0, waits, CallReport::Kind::kAnswer);
  report(1, never, CallReport::Kind::kAnswer);
  const auto verdict = ledger.judge({2, 2, [](int) { return true; }}, 0);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_NE(verdict->reason.find("rank 1 never called all_to_all run #12345 in a graph"), std::string::npos)
      << verdict->reason;
}

// Its kernels have ended without success.
TEST(CallLedger, TellsWhatAReplayWaitedForThatGaveUp) {
  const uint64_t sequence = ReplayNumber{.run = 3}.encoded();
  CallLog gave_up(kFirstLaunch);
  gave_up.answerReplaysFrom([] { return std::vector{ReplayRuns{4, 4}}; });
  EXPECT_EQ(gave_up.report(sequence).ended, sequence + 1);
  gave_up.waits(sequence, {{1}, "lane 0 waited for the rank at position 1"});
  const CallReport report = gave_up.report(sequence);
  EXPECT_EQ(report.begun, sequence + 1);
  EXPECT_EQ(report.ended, sequence);
  EXPECT_EQ(report.obstacle, "lane 0 waited for the rank at position 1");
  EXPECT_EQ(report.waits_for, std::vector<int32_t>{1});
}

TEST(CallLedger, KnowsReplaysWhoseNumbersHaveBegunAnew) {
  const uint64_t runs = uint64_t{ReplayNumber::kRunMask} + 1;
  CallLog log(kFirstLaunch);
  const auto reportOf = [&](uint32_t run, ReplayRuns made) {
    made.of.collective = 1;
    log.answerReplaysFrom([made] { return std::vector{made}; });
    return log.report(ReplayNumber{.collective = 1, .run = run}.encoded());
  };
  for (const uint32_t run : {0U, 1U, ReplayNumber::kRunMask}) {
    const uint64_t before = runs + run;  // the second time
    CallReport report = reportOf(run, {before + 1, before});
    EXPECT_TRUE(report.begun > report.sequence && report.ended <= report.sequence) << run;
    report = reportOf(run, {before, before});
    EXPECT_LE(report.begun, report.sequence) << run;
    report = reportOf(run, {});
    EXPECT_LE(report.begun, report.sequence) << run;
  }
}

TEST(CallLedger, CountsCallsAndLaunchesApart) {
  CallLedger ledger;
  const Attendance one_left{2, 1, [](int rank) { return rank == 0; }};
  const auto report = [&](int rank, CallReport::Kind kind, uint64_t sequence, uint64_t begun) {
    CallReport said;
    said.kind = kind;
    said.sequence = said.ended = sequence;
    said.begun = begun;
    said.digest = 7;
    said.name = "all_reduce";
    ledger.report(rank, 2, said, 0);
  };
  report(1, CallReport::Kind::kAnswer, kFirstLaunch + 2, kFirstLaunch + 3);
  report(1, CallReport::Kind::kAnswer, 0, 1);
  ledger.left(1, 2);
  report(0, kStalled, kFirstLaunch + 2, kFirstLaunch + 3);
  EXPECT_FALSE(ledger.judge(one_left, 0));
  report(0, kStalled, kFirstLaunch + 3, kFirstLaunch + 4);
  std::optional<CallVerdict> verdict = ledger.judge(one_left, 0);
  ASSERT_TRUE(verdict);
  EXPECT_NE(verdict->reason.find("after 3 launches of kernels, and rank 0 waits in all_reduce launch #3"),
            std::string::npos)
      << verdict->reason;
  report(0, kStalled, 1, 2);
  verdict = ledger.judge(one_left, 0);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_NE(verdict->reason.find("after 1 calls, and rank 0 waits in all_reduce #1"), std::string::npos)
      << verdict->reason;
}

TEST(CallLedger, FollowsTheWaitingToItsEndWhenAllHaveCalled) {
  Ranks ranks(4);
  ranks.callAll(callOf(Collective::kAllReduce));
  ranks.waitsFor(0, 3);
  ranks.waitsFor(3, 2);
  ranks.waitsFor(1, 0);
  ranks.report(0, kOverdue, 1000);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 2);
  EXPECT_EQ(ranks.reason().rfind("all ranks called all_reduce #0, and it did not complete within 1000 ms "
                                 "(HORING_TIMEOUT_MS); all wait in the end for rank 2: rank 0: lane 0: waits",
                                 0),
            0u)
      << ranks.reason();
}

TEST(CallLedger, SurvivesReportsThatMakeNoSense) {
  CallLedger ledger;
  CallReport report;
  report.digest = 1;
  report.waits_for = {-1, 1 << 30};
  report.begun = UINT64_MAX;
  for (uint64_t sequence = 0; sequence < 100; ++sequence) {
    for (const auto kind : {kStalled, kMismatch, kOverdue, CallReport::Kind::kAnswer}) {
      report.kind = kind;
      report.sequence = UINT64_MAX - sequence;
      ledger.report(static_cast<int>(sequence % 2), 2, report, static_cast<int64_t>(sequence) * kMs);
    }
  }
  EXPECT_LE(ledger.takeInquiries().size(), 200u);
  EXPECT_TRUE(ledger.judge({2, 2, [](int) { return true; }}, 3'600'000 * kMs));
}

}  // namespace
}  // namespace horing
