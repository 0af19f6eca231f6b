// Circular waits, from the ranks' reports.
#include "control/wait_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace horing {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kStuckMs = WaitGraph::kStuckMs;
using Doing = RankState::Doing;

// Ranks whose states a test writes down, and the rendezvous' graph that asks them.
class Ranks {
 public:
  explicit Ranks(int ranks) : states_(static_cast<size_t>(ranks)), present_(states_.size(), true) {}

  void receives(int rank, std::vector<int32_t> from, uint32_t idle_ms = kStuckMs) {
    at(rank) = {Doing::kExchange, 0, 0, "", idle_ms, 0, std::move(from), {}};
  }
  void sends(int rank, std::vector<int32_t> to, uint32_t idle_ms = kStuckMs) {
    at(rank) = {Doing::kExchange, 0, 0, "", idle_ms, 0, {}, std::move(to)};
  }
  void exchanges(int rank, std::vector<int32_t> from, std::vector<int32_t> to) {
    at(rank) = {Doing::kExchange, 0, 0, "", kStuckMs, 0, std::move(from), std::move(to)};
  }
  void reduces(int rank, std::vector<int32_t> waits_for, uint32_t idle_ms = kStuckMs) {
    at(rank) = {Doing::kCollective, 0, 5, "all_reduce", idle_ms, 0, std::move(waits_for), {}};
  }
  void leaves(int rank) { present_[static_cast<size_t>(rank)] = false; }
  void fallsSilent(int rank) { silent_ = rank; }

  // The rank reports its state; all present ranks answer the inquiry.
  void tell(int rank, uint32_t overdue_ms = 0) {
    RankState own = at(rank);
    own.overdue_ms = overdue_ms;
    graph_.tell(rank, size(), own, now_ns_);
    const std::optional<uint32_t> round = graph_.takeInquiry();
    if (!round) return;
    ++inquiries_;
    for (int other = 0; other < size(); ++other) {
      if (!present_[static_cast<size_t>(other)] || other == silent_) continue;
      RankState answer = at(other);
      answer.round = *round;
      graph_.tell(other, size(), answer, now_ns_);
    }
  }
  // Again, so much later that what all say counts.
  void tellTwice(int rank) {
    tell(rank);
    EXPECT_EQ(reason(), "nothing") << "once is not enough";
    wait(WaitGraph::kSureMs);
    tell(rank);
  }
  std::optional<CallVerdict> verdict() const {
    return graph_.judge({size(), static_cast<int>(std::count(present_.begin(), present_.end(), true)),
                         [this](int rank) { return bool{present_[static_cast<size_t>(rank)]}; }},
                        now_ns_);
  }
  std::string reason() const {
    const auto judged = verdict();
    return judged ? judged->reason : "nothing";
  }
  void wait(int64_t ms) { now_ns_ += ms * kMs; }
  int inquiries() const { return inquiries_; }
  int64_t nextLookNs() const { return graph_.nextLookNs(); }

 private:
  int size() const { return static_cast<int>(states_.size()); }
  RankState& at(int rank) { return states_[static_cast<size_t>(rank)]; }

  std::vector<RankState> states_;
  std::vector<bool> present_;
  int silent_ = -1;
  WaitGraph graph_;
  int64_t now_ns_ = 9000 * kMs;
  int inquiries_ = 0;
};

TEST(WaitGraph, SaysNothingWhileARankIsMerelyLate) {
  Ranks ranks(3);
  ranks.receives(1, {0});
  ranks.receives(2, {1});
  for (int round = 0; round < 100; ++round) {
    ranks.tell(1);
    ranks.tell(2);
    ranks.wait(2000);
    EXPECT_EQ(ranks.reason(), "nothing");
  }
  EXPECT_EQ(ranks.inquiries(), 100) << "one inquiry serves all that wait in one moment";
  EXPECT_EQ(ranks.nextLookNs(), INT64_MAX);
}

TEST(WaitGraph, SeesThatBothReceive) {
  Ranks ranks(2);
  ranks.receives(0, {1});
  ranks.receives(1, {0});
  ranks.tellTwice(1);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->code, Code::kInvalidUsage);
  EXPECT_EQ(
      ranks.reason().substr(0, ranks.reason().find('.')),
      "ranks wait for each other in a circle: rank 0 waits for a message from rank 1; rank 1 waits for a "
      "message from rank 0");
}

TEST(WaitGraph, SeesThatBothSend) {
  Ranks ranks(2);
  ranks.sends(0, {1});
  ranks.sends(1, {0});
  ranks.tellTwice(0);
  EXPECT_NE(ranks.reason().find("rank 1 waits for rank 0 to take a message"), std::string::npos)
      << ranks.reason();
}

TEST(WaitGraph, SeesACircleThroughACollective) {
  Ranks ranks(4);
  ranks.receives(1, {0});
  ranks.reduces(0, {3});
  ranks.reduces(3, {2});
  ranks.reduces(2, {1});
  ranks.tellTwice(1);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 1);
  EXPECT_EQ(
      ranks.reason().substr(0, ranks.reason().find('.')),
      "ranks wait for each other in a circle: rank 1 waits for a message from rank 0; rank 0 is in "
      "all_reduce #5, which waits for rank 3; rank 3 is in all_reduce #5, which waits for rank 2; rank 2 is "
      "in all_reduce #5, which waits for rank 1");
}

TEST(WaitGraph, LetsPassWhatCanGoOn) {
  // A send that meets its receive, whatever keeps it.
  Ranks meeting(2);
  meeting.sends(0, {1});
  meeting.receives(1, {0});
  meeting.tellTwice(0);
  EXPECT_EQ(meeting.reason(), "nothing");
  // One rank of the circle has just made progress, or is silent.
  Ranks moving(2);
  moving.receives(0, {1});
  moving.receives(1, {0}, kStuckMs - 1);
  moving.tellTwice(0);
  EXPECT_EQ(moving.reason(), "nothing");
  Ranks silent(2);
  silent.receives(0, {1});
  silent.receives(1, {0});
  silent.fallsSilent(1);
  silent.tellTwice(1);
  silent.tellTwice(0);
  EXPECT_EQ(silent.reason(), "nothing");
  // Data of one collective may be under way, so a circle inside it proves nothing.
  Ranks inside(3);
  inside.reduces(0, {1});
  inside.reduces(1, {0});
  inside.receives(2, {0});
  inside.tellTwice(2);
  EXPECT_EQ(inside.reason(), "nothing");
}

// Every rank was stopped with the job and continues: rank 1 takes its messages only after the inquiry.
TEST(WaitGraph, LetsAJobGoOnThatWasStopped) {
  Ranks ranks(2);
  ranks.receives(0, {1}, 60'000);
  ranks.receives(1, {0}, 60'000);
  ranks.tell(0);
  ranks.wait(500);
  ranks.tell(1);
  EXPECT_EQ(ranks.reason(), "nothing");
  ranks.wait(WaitGraph::kSureMs);
  ranks.receives(1, {0}, 300);  // the next message
  ranks.tell(0);
  EXPECT_EQ(ranks.reason(), "nothing");
  ranks.wait(WaitGraph::kSureMs);
  ranks.receives(1, {0});  // for which it waits from here on
  ranks.tell(0);
  EXPECT_EQ(ranks.reason(), "nothing");
}

// A rank names no more than kMaxWaitedFor others.
TEST(WaitGraph, TakesNoCutListForAll) {
  Ranks ranks(2 + static_cast<int>(kMaxWaitedFor));
  std::vector<int32_t> others(kMaxWaitedFor);
  std::iota(others.begin(), others.end(), 2);
  ranks.receives(0, {1});
  ranks.exchanges(1, {0}, others);  // and perhaps sends to rank 0
  ranks.tellTwice(0);
  EXPECT_EQ(ranks.reason(), "nothing");
  others.pop_back();
  ranks.exchanges(1, {0}, others);
  ranks.wait(WaitGraph::kSureMs);
  ranks.tell(0);
  EXPECT_NE(ranks.reason().find("in a circle"), std::string::npos) << ranks.reason();
}

TEST(WaitGraph, SeesThatTheSenderHasLeft) {
  Ranks ranks(3);
  ranks.receives(1, {2});
  ranks.leaves(2);
  ranks.tellTwice(1);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->rank, 2);
  EXPECT_EQ(ranks.reason(), "rank 1 waits for a message from rank 2, which has left");
}

TEST(WaitGraph, FollowsTheWaitingToItsEndAtTheDeadline) {
  Ranks ranks(3);
  ranks.receives(1, {0}, 300);
  ranks.reduces(0, {2}, 300);
  ranks.tell(1, 300);
  ASSERT_TRUE(ranks.verdict());
  EXPECT_EQ(ranks.verdict()->code, Code::kTimeout);
  EXPECT_EQ(ranks.verdict()->rank, 2);
  EXPECT_EQ(
      ranks.reason(),
      "rank 1 has waited for 300 ms (HORING_TIMEOUT_MS) in a group of sends and receives: rank 1 waits for a "
      "message from rank 0; rank 0 is in all_reduce #5, which waits for rank 2, which is in no call");
}

TEST(WaitGraph, NamesAtTheDeadlineWhoDoesNotAnswer) {
  Ranks ranks(2);
  ranks.receives(1, {0}, 300);
  ranks.fallsSilent(0);
  ranks.tell(1, 300);
  EXPECT_EQ(ranks.reason(), "nothing");
  EXPECT_LT(ranks.nextLookNs(), INT64_MAX);
  ranks.wait(500);
  EXPECT_NE(ranks.reason().find("rank 0, which does not answer"), std::string::npos) << ranks.reason();
}

TEST(WaitGraph, SurvivesStatesThatMakeNoSense) {
  WaitGraph graph;
  RankState state{Doing::kExchange, 1, 0, "", UINT32_MAX, 1, {-1, 7, 1 << 30, 0, 1}, {-5, 1, 0}};
  for (uint32_t i = 0; i < 100; ++i) {
    state.round = i % 3;
    graph.tell(static_cast<int>(i % 2), 2, state, i * kMs);
    graph.takeInquiry();
  }
  EXPECT_TRUE(graph.judge({2, 2, [](int) { return true; }}, 3'600'000 * kMs));
}

}  // namespace
}  // namespace horing
