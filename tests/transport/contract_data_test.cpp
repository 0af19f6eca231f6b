// The contract of connections: order, credits, sizes, tags, independence.
#include <algorithm>

#include "contract_ranks.h"

namespace horing::testing {
namespace {

constexpr int kQuietPolls = 200;

class DataContract : public TransportContract {};

TEST_P(DataContract, DeliversInOrderAroundTheRing) {
  constexpr LinkShape kShape{.channels = 1, .slots = 3, .slot_bytes = 192};
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(sendPattern(ranks, a->sender(0), static_cast<uint32_t>(i % 193), i));
    if (i >= 2) expectPattern(ranks, b->receiver(0), static_cast<uint32_t>((i - 2) % 193), i - 2);
    if (HasFatalFailure()) return;
  }
}

TEST_P(DataContract, RunsOutOfCreditsAndRecovers) {
  for (const uint32_t slots : {2u, 5u, kMaxSlots}) {
    const LinkShape shape{.channels = 1, .slots = slots, .slot_bytes = 64};
    ContractRanks ranks(GetParam(), 2);
    ASSERT_TRUE(ranks.made(2));
    const auto [a, b] = ranks.link(0, 1, shape);
    ASSERT_NE(a, nullptr);
    for (uint64_t i = 0; i < slots; ++i)
      ASSERT_TRUE(sendPattern(ranks, a->sender(0), 64, i)) << i << " of " << slots;
    for (int i = 0; i < kQuietPolls; ++i) {
      ranks.pump();
      ASSERT_EQ(a->sender(0).tryAcquire(kWholeSlot), nullptr) << "all " << slots << " slots are in flight";
    }
    for (uint64_t i = 0; i < 3; ++i) {
      expectPattern(ranks, b->receiver(0), 64, i);
      ASSERT_TRUE(sendPattern(ranks, a->sender(0), 64, slots + i)) << "one credit came back";
      ranks.pump();
      ASSERT_EQ(a->sender(0).tryAcquire(kWholeSlot), nullptr) << "and only one";
    }
    for (uint64_t i = 3; i < slots + 3; ++i) expectPattern(ranks, b->receiver(0), 64, i);
  }
}

TEST_P(DataContract, HandsOutTheSameSlotUntilPosted) {
  constexpr LinkShape kShape{.channels = 1, .slots = 4, .slot_bytes = 128};
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  std::byte* slot = ranks.acquire(a->sender(0));
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slot) % 64, 0u);
  fillPattern(slot, 128, 9);
  ranks.pump();
  EXPECT_EQ(a->sender(0).tryAcquire(kWholeSlot), slot);
  a->sender(0).post(128, 9);
  EXPECT_NE(ranks.acquire(a->sender(0)), slot) << "a posted slot is the receiver's";

  const Message* message = ranks.peek(b->receiver(0));
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(b->receiver(0).tryPeek(), message) << "peeking does not consume";
  EXPECT_EQ(matchPattern(message->data, 128, 9), 128u);
  b->receiver(0).release();
  for (int i = 0; i < kQuietPolls; ++i) {
    ranks.pump();
    ASSERT_EQ(b->receiver(0).tryPeek(), nullptr) << "the acquired slot was not posted";
  }
}

TEST_P(DataContract, CarriesEmptyAndFullMessagesAndTags) {
  constexpr LinkShape kShape{.channels = 1, .slots = 4, .slot_bytes = 65536};
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  const std::pair<uint32_t, Tag> messages[] = {
      {0, 0}, {65536, UINT64_MAX}, {0, 1}, {1, uint64_t{1} << 63}, {65535, 0x123456789abcdef0}};
  for (const auto& [bytes, tag] : messages) {
    ASSERT_TRUE(sendPattern(ranks, a->sender(0), bytes, tag));
    expectPattern(ranks, b->receiver(0), bytes, tag);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(DataContract, KeepsChannelsIndependent) {
  constexpr LinkShape kShape{.channels = kMaxLinkChannels, .slots = 2, .slot_bytes = 256};
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  // Channel 0 is full and is not read: the other channels must make progress.
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(sendPattern(ranks, a->sender(0), 256, i));
  for (uint64_t i = 0; i < 20; ++i) {
    for (int channel = 1; channel < kMaxLinkChannels; ++channel) {
      const uint64_t seed = i * 1000 + static_cast<uint64_t>(channel);
      ASSERT_TRUE(sendPattern(ranks, a->sender(channel), 256, seed)) << "channel " << channel;
      expectPattern(ranks, b->receiver(channel), 256, seed);
      ASSERT_FALSE(HasFatalFailure()) << "channel " << channel;
    }
  }
  EXPECT_EQ(a->sender(0).tryAcquire(kWholeSlot), nullptr);
  for (uint64_t i = 0; i < 2; ++i) expectPattern(ranks, b->receiver(0), 256, i);
}

// Both directions of all channels of all links at once, each at its own pace.
TEST_P(DataContract, MovesEverythingAtOnceInBothDirections) {
  constexpr int kRanks = 4;
  constexpr int kChannels = 2;
  constexpr uint64_t kMessages = 60;
  constexpr LinkShape kShape{.channels = kChannels, .slots = 4, .slot_bytes = 1024};
  ContractRanks ranks(GetParam(), kRanks);
  ASSERT_TRUE(ranks.made(kRanks));
  struct Flow {
    Sender* sender;
    Receiver* receiver;
    uint64_t seed, sent = 0, received = 0;
  };
  std::vector<Flow> flows;
  for (int a = 0; a < kRanks; ++a) {
    for (int b = a + 1; b < kRanks; ++b) {
      const auto [x, y] = ranks.link(a, b, kShape);
      ASSERT_NE(x, nullptr);
      for (int channel = 0; channel < kChannels; ++channel) {
        flows.push_back({&x->sender(channel), &y->receiver(channel), flows.size() << 32});
        flows.push_back({&y->sender(channel), &x->receiver(channel), flows.size() << 32});
      }
    }
  }
  size_t broken = 0;
  const auto step = [&](Flow& flow) {
    if (flow.sent < kMessages) {
      if (std::byte* slot = flow.sender->tryAcquire(kWholeSlot)) {
        const uint64_t seed = flow.seed + flow.sent++;
        fillPattern(slot, 700 + seed % 300, seed);
        flow.sender->post(static_cast<uint32_t>(700 + seed % 300), seed);
      }
    }
    if (const Message* message = flow.receiver->tryPeek()) {
      const uint64_t seed = flow.seed + flow.received++;
      if (message->tag != seed || message->bytes != 700 + seed % 300)
        ++broken;
      else if (matchPattern(message->data, message->bytes, seed) != message->bytes)
        ++broken;
      flow.receiver->release();
    }
    return flow.received == kMessages;
  };
  EXPECT_TRUE(ranks.pumpUntil([&] {
    size_t done = 0;
    for (Flow& flow : flows) done += step(flow) ? 1 : 0;
    return done == flows.size();
  }));
  EXPECT_EQ(broken, 0u);
}

TEST_P(DataContract, SaysWhenEverythingIsHandedOver) {
  constexpr LinkShape kShape{.channels = 1, .slots = 4, .slot_bytes = 4096};
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [a, b] = ranks.link(0, 1, kShape);
  ASSERT_NE(a, nullptr);
  ASSERT_TRUE(sendPattern(ranks, a->sender(0), 4096, 5));
  Link* sending = a;
  EXPECT_TRUE(ranks.pumpUntil([&] { return sending->sender(0).flushed(); }));
  expectPattern(ranks, b->receiver(0), 4096, 5);
  Link* receiving = b;
  EXPECT_TRUE(ranks.pumpUntil([&] { return receiving->receiver(0).flushed(); }));
}

INSTANTIATE_TEST_SUITE_P(Transports, DataContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
