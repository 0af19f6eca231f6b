// Late ranks and slow paths, found from the ranks' reports on their calls and waits.
#include "control/pace_judge.h"

#include <gtest/gtest.h>

#include <random>

namespace horing {
namespace {

constexpr uint32_t kSecondUs = 1'000'000;
constexpr int kLongEnough = 12;  // seconds in which something is known to last

// Ranks of nodes of two, each of which tells its pace every second.
class Job {
 public:
  explicit Job(int ranks) : paces_(static_cast<size_t>(ranks)) {
    for (Pace& pace : paces_) pace = {.interval_us = kSecondUs, .calls = 20, .inside_us = 20 * 5000};
  }

  Pace& of(int rank) { return paces_[static_cast<size_t>(rank)]; }
  void waits(int rank, int peer, bool for_room, uint32_t us) {
    of(rank).waits.push_back({{.peer = peer, .for_room = for_room}, us});
  }
  // Data on its way from one rank to another: both wait for so long.
  void moves(int from, int to, uint32_t us) {
    waits(from, to, true, us);
    waits(to, from, false, us);
  }
  void pass(int seconds) {
    const PaceJudge::Ranks ranks{size(), [](int one, int other) { return one / 2 == other / 2; }};
    for (int second = 0; second < seconds; ++second) {
      now_ns_ += 1'000'000'000;
      for (int rank = 0; rank < size(); ++rank)
        if (rank != silent_) judge_.tell(rank, ranks, of(rank), now_ns_ + rank * 1'000'000);
    }
  }
  void fallsSilent(int rank) { silent_ = rank; }
  int size() const { return static_cast<int>(paces_.size()); }
  PaceJudge& judge() { return judge_; }

 private:
  std::vector<Pace> paces_;
  PaceJudge judge_;
  int64_t now_ns_ = 1;
  int silent_ = -1;
};

// A rank is late by that much to each of the 20 calls that all make in a second.
void comesLate(Job& job, int late, uint32_t us) {
  for (int rank = 0; rank < job.size(); ++rank) {
    if (rank == late) continue;
    job.of(rank).inside_us += 20 * us;
    job.waits(rank, (rank + job.size() - 1) % job.size(), false, 20 * us);
  }
}

TEST(PaceJudge, NamesTheRankThatComesLateOnceAndWhenItNoLongerDoes) {
  for (const int ranks : {2, 3, 4, 8}) {
    Job late(ranks);
    comesLate(late, 1, 10'000);
    late.pass(kLongEnough);
    const std::vector<PaceFinding> found = late.judge().takeBegun();
    ASSERT_EQ(found.size(), 1u) << ranks;
    EXPECT_EQ(found[0].rank, 1);
    EXPECT_EQ(found[0].to, -1);
    EXPECT_NEAR(static_cast<double>(found[0].per_call_us), 10'000, 100);
    EXPECT_NEAR(found[0].share, 0.2, 0.01);
    late.pass(kLongEnough);
    EXPECT_TRUE(late.judge().takeBegun().empty());
    EXPECT_EQ(late.judge().lasting().size(), 1u);
    EXPECT_TRUE(late.judge().takeEnded().empty());
    for (int rank = 0; rank < ranks; ++rank) late.of(rank).inside_us = 20 * 5000;
    late.pass(kLongEnough);
    EXPECT_EQ(late.judge().takeEnded().size(), 1u);
    EXPECT_TRUE(late.judge().lasting().empty());
  }
}

TEST(PaceJudge, SaysNothingOfWhatIsShortOrShared) {
  Job brief(4);
  comesLate(brief, 1, 10'000);
  brief.pass(4);
  EXPECT_TRUE(brief.judge().takeBegun().empty());
  // Late to each call, but to so few that it costs nothing.
  Job rare(4);
  for (int rank = 0; rank < 4; ++rank)
    rare.of(rank) = {.interval_us = kSecondUs, .calls = 8, .inside_us = 800};
  comesLate(rare, 1, 100);
  rare.pass(kLongEnough);
  EXPECT_TRUE(rare.judge().takeBegun().empty());
  // Each is late to as many of the calls of a second as the others, more or less.
  std::mt19937 random(1);
  std::normal_distribution<> spread(1, 0.05);
  Job turns(4);
  for (int second = 0; second < 100; ++second) {
    for (int rank = 0; rank < 4; ++rank)
      turns.of(rank).inside_us = static_cast<uint32_t>(20 * 12'500 * spread(random));
    turns.pass(1);
  }
  EXPECT_TRUE(turns.judge().takeBegun().empty());
}

TEST(PaceJudge, NamesThePathOnWhichBothEndsWait) {
  Job slow(8);
  // A ring between nodes: behind the slow path everybody waits for data, before it everybody for room.
  for (const auto& [from, to] : {std::pair{0, 2}, {4, 6}, {6, 0}}) slow.waits(to, from, false, 900'000);
  slow.moves(2, 4, 900'000);
  slow.moves(0, 1, 100'000);
  slow.pass(kLongEnough);
  const std::vector<PaceFinding> found = slow.judge().takeBegun();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].to, 4);
  EXPECT_NEAR(found[0].share, 0.9, 0.01);
}

TEST(PaceJudge, NamesNoPathWhereAllAreAlikeOrOneEndIsMissing) {
  // Paths between nodes are slower than those inside, which is no news.
  Job alike(8);
  for (const auto& [from, to] : {std::pair{0, 2}, {2, 4}, {4, 6}, {6, 0}}) alike.moves(from, to, 900'000);
  for (int rank = 0; rank < 8; rank += 2) alike.moves(rank, rank + 1, 50'000);
  alike.pass(kLongEnough);
  EXPECT_TRUE(alike.judge().takeBegun().empty());
  // Rank 2 comes late: the next waits for its data and the one before for room, and no two for each other.
  Job late(8);
  late.waits(4, 2, false, 900'000);
  late.waits(0, 2, true, 900'000);
  late.pass(kLongEnough);
  EXPECT_TRUE(late.judge().takeBegun().empty());
}

TEST(PaceJudge, JudgesNobodyLateWhileARankTellsNothing) {
  Job job(4);
  comesLate(job, 1, 10'000);
  job.fallsSilent(3);
  job.moves(1, 2, 900'000);
  job.pass(2 * kLongEnough + 10);
  const std::vector<PaceFinding> found = job.judge().takeBegun();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].to, 2) << "paths are known all the same";
}

TEST(PaceMeter, TellsWhatHasHappenedSinceItWasAsked) {
  CallLog calls(0, 20);
  PaceMeter meter;
  EXPECT_FALSE(meter.take(calls, 1'000'000'000));
  EXPECT_FALSE(meter.take(calls, 2'000'000'000)) << "nothing has";
  const auto call = [&](Collective collective, int64_t ns) {
    const uint64_t sequence = calls.recorder().begun();
    calls.recorder().begin({.sequence = sequence, .count = 10, .begun_ns = 100, .collective = collective});
    calls.recorder().end(sequence, 100 + ns, Outcome::kDone);
  };
  call(Collective::kAllReduce, 3'000'000);
  call(Collective::kAllGather, 2'000'000);
  call(Collective::kBroadcast, 700'000'000);
  for (int peer = 0; peer < 20; ++peer) {
    PeerWaits waits;
    waits.add({.peer = peer, .for_room = peer % 2 == 0});
    calls.waitTimes().add(waits, (peer + 1) * 1'000'000);
  }
  const std::optional<Pace> pace = meter.take(calls, 3'500'000'000);
  ASSERT_TRUE(pace);
  EXPECT_EQ(pace->interval_us, 1'500'000u);
  EXPECT_EQ(pace->calls, 2u);
  EXPECT_EQ(pace->inside_us, 5000u);
  ASSERT_EQ(pace->waits.size(), kMaxPaceWaits);
  EXPECT_EQ(pace->waits[0], (PaceWait{{.peer = 19, .for_room = false}, 20'000}));
  EXPECT_EQ(pace->waits[1], (PaceWait{{.peer = 18, .for_room = true}, 19'000}));
  EXPECT_FALSE(meter.take(calls, 4'500'000'000));
  calls.recorder().begin(
      {.sequence = calls.recorder().begun(), .count = 10, .collective = Collective::kAllReduce});
  const std::optional<Pace> stuck = meter.take(calls, 5'500'000'000);
  ASSERT_TRUE(stuck) << "a call that goes on, also before it waits for data";
  EXPECT_EQ(paceText(*stuck).find("0 calls/s, 0 MB/s; in all_reduce #3 ("), 0u) << paceText(*stuck);
  EXPECT_EQ(calls.recorder().totals(Collective::kAllReduce).bytes, 40u);
}

// A wait is counted when the thread that waits looks again, so it may have begun in the interval before.
TEST(PaceMeter, CountsNoMoreThanTheIntervalAsWaited) {
  CallLog calls(0, 2);
  PaceMeter meter;
  (void)meter.take(calls, 1'000'000'000);
  PeerWaits waits;
  waits.add({.peer = 1, .for_room = false});
  calls.waitTimes().add(waits, 1'020'000'000);
  const std::optional<Pace> pace = meter.take(calls, 2'000'000'000);
  ASSERT_TRUE(pace);
  EXPECT_NE(paceText(*pace).find("waits 100 % of the time for data from rank 1"), std::string::npos)
      << paceText(*pace);
}

}  // namespace
}  // namespace horing
