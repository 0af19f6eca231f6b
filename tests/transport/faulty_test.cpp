// The faulty decorator: faults happen as planned, and again for the same seed.
#include <algorithm>
#include <bit>

#include "contract_ranks.h"
#include "idle_link.h"
#include "transport/faulty/faulty_link.h"
#include "transport/faulty/faulty_transport.h"
#include "transport/loopback/loopback_transport.h"

namespace horing::testing {
namespace {

constexpr LinkShape kShape{.channels = 2, .slots = 4, .slot_bytes = 256};

class PlannedFixture final : public TransportFixture {
 public:
  explicit PlannedFixture(const FaultPlan& plan) : plan_(plan) {}
  std::vector<std::unique_ptr<Transport>> make(int ranks) override {
    std::vector<std::unique_ptr<Transport>> transports;
    auto hub = LoopbackHub::create(ranks).take();
    for (int rank = 0; rank < ranks; ++rank) {
      transports.push_back(makeFaultyTransport(makeLoopbackTransport(hub, rank).take(), rank, plan_));
    }
    return transports;
  }

 private:
  FaultPlan plan_;
};

class TroubledLink final : public IdleLink {
 public:
  bool gave_up = false, mends = false, sends = false;
  bool givenUp() const override { return gave_up; }
  bool isMending() const override { return mends; }
  bool hasUnderWay() const override { return sends; }
};

ContractRanks faultyRanks(int ranks, const FaultPlan& plan) {
  return ContractRanks({"Faulty", [plan] { return std::make_unique<PlannedFixture>(plan); }}, ranks);
}

// How many polls each of some messages stayed hidden, on both channels.
std::vector<int> hiddenPolls(const FaultPlan& plan) {
  ContractRanks ranks = faultyRanks(2, plan);
  const auto [a, b] = ranks.link(0, 1, kShape);
  std::vector<int> hidden;
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(sendPattern(ranks, a->sender(i % 2), 16, static_cast<uint64_t>(i)));
    int polls = 0;
    while (b->receiver(i % 2).tryPeek() == nullptr && polls < 1000) ++polls;
    hidden.push_back(polls);
    b->receiver(i % 2).release();
  }
  return hidden;
}

TEST(FaultyTransport, HidesMessagesForAsManyPollsAsTheSeedSays) {
  const FaultPlan plan{.seed = 3, .max_delay_polls = 6};
  const std::vector<int> hidden = hiddenPolls(plan);
  EXPECT_EQ(*std::min_element(hidden.begin(), hidden.end()), 0);
  EXPECT_EQ(*std::max_element(hidden.begin(), hidden.end()), 6);
  EXPECT_EQ(hiddenPolls(plan), hidden) << "the same seed";
  EXPECT_NE(hiddenPolls({.seed = 4, .max_delay_polls = 6}), hidden) << "another seed";
}

TEST(FaultyTransport, MakesCreditsLateButNotFreshSlots) {
  ContractRanks ranks = faultyRanks(2, {.seed = 1, .max_credit_delay_polls = 50});
  const auto [a, b] = ranks.link(0, 1, kShape);
  for (uint32_t i = 0; i < kShape.slots; ++i) {
    ASSERT_NE(a->sender(0).tryAcquire(kWholeSlot), nullptr) << "never used";
    a->sender(0).post(0, i);
  }
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_NE(b->receiver(0).tryPeek(), nullptr);
    b->receiver(0).release();
    int polls = 0;
    while (a->sender(0).tryAcquire(kWholeSlot) == nullptr && polls < 1000) ++polls;
    ASSERT_LE(polls, 50);
    if (polls > 0) ++late;
    a->sender(0).post(0, 0);
  }
  EXPECT_GT(late, 10);
}

TEST(FaultyTransport, CutsOnlyTheChosenLinkAndNamesThePeer) {
  ContractRanks ranks = faultyRanks(3, {.cut_peer = 1, .cut_after_messages = 5});
  const auto [cut, theirs] = ranks.link(0, 1, kShape);
  const auto [whole, others] = ranks.link(0, 2, kShape);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(cut->status().ok()) << "before message " << i;
    ASSERT_TRUE(sendPattern(ranks, cut->sender(0), 16, i));
    expectPattern(ranks, theirs->receiver(0), 16, i);
  }
  EXPECT_EQ(cut->status().code(), Code::kRemoteError);
  EXPECT_NE(cut->status().message().find("rank 1"), std::string::npos) << cut->status().message();
  EXPECT_EQ(cut->sender(0).tryAcquire(kWholeSlot), nullptr);
  EXPECT_EQ(cut->receiver(1).tryPeek(), nullptr);
  const Status first = ranks.at(0).progress();
  EXPECT_EQ(first.code(), Code::kRemoteError);
  EXPECT_EQ(ranks.at(0).progress().message(), first.message()) << "sticky";
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(sendPattern(ranks, whole->sender(0), 16, i));
    expectPattern(ranks, others->receiver(0), 16, i);
  }
  EXPECT_TRUE(whole->status().ok());
}

TEST(FaultyTransport, TellsTheStateOfTheLinkInside) {
  TroubledLink inner;
  const FaultyLink link(&inner, {}, kShape);
  EXPECT_FALSE(link.givenUp() || link.isMending() || link.hasUnderWay());
  inner.gave_up = true;
  EXPECT_TRUE(link.givenUp() && !link.isMending() && !link.hasUnderWay());
  inner.mends = true;
  EXPECT_TRUE(link.isMending() && !link.hasUnderWay());
  inner.sends = true;
  EXPECT_TRUE(link.hasUnderWay());
}

TEST(FaultyTransport, FlipsExactlyOneBitOfSomeMessages) {
  ContractRanks ranks = faultyRanks(2, {.seed = 11, .flip_one_in = 4});
  const auto [a, b] = ranks.link(0, 1, kShape);
  int flipped = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(sendPattern(ranks, a->sender(0), 256, i));
    const Message* message = ranks.peek(b->receiver(0));
    ASSERT_NE(message, nullptr);
    int bits = 0;
    for (size_t at = 0; at < 256; ++at) {
      bits += std::popcount(std::to_integer<unsigned>(message->data[at] ^ patternByte(i, at)));
    }
    EXPECT_LE(bits, 1);
    flipped += bits;
    b->receiver(0).release();
  }
  EXPECT_GT(flipped, 20);
  EXPECT_LT(flipped, 100);
}

TEST(FaultyTransport, DoesNotLetARankSleepOverWhatItHides) {
  ContractRanks ranks = faultyRanks(2, {.seed = 3, .max_delay_polls = 6});
  const auto [a, b] = ranks.link(0, 1, kShape);
  const auto readable = [&] {
    pollfd ready{ranks.at(1).waitFd(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  };
  int hidden = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(sendPattern(ranks, a->sender(0), 16, i));
    while (b->receiver(0).tryPeek() == nullptr) {
      ASSERT_TRUE(readable()) << "message " << i;
      ++hidden;
    }
    b->receiver(0).release();
  }
  EXPECT_GT(hidden, 0);
  EXPECT_FALSE(readable()) << "with nothing hidden it may sleep";
}

}  // namespace
}  // namespace horing::testing
