// Connections between two ranks may break while both processes run: no message is lost, duplicated, damaged or reordered. For transports
// without connections these are ordinary transfers.
#include <algorithm>
#include <atomic>
#include <thread>

#include "../sanitizer.h"
#include "base/random.h"
#include "contract_ranks.h"

namespace horing::testing {
namespace {

class BreakContract : public TransportContract {};

constexpr int kRanks = 3;
constexpr uint64_t kMessages = 30;
constexpr uint64_t kSeeds = test::sweepTo(4);
// Larger than what the kernel takes at once, so that messages break in the middle.
constexpr LinkShape kShape{.channels = 2, .slots = 3, .slot_bytes = 1u << 19};

struct Flow {
  Sender* sender;
  Receiver* receiver;
  uint64_t seed;
  uint64_t sent = 0, received = 0, wrong = 0;

  static uint32_t bytesOf(uint64_t seed) {
    return static_cast<uint32_t>(seed % 3 == 0 ? seed % 5 : 300'000 + seed % 7000);
  }
  // True when all has come.
  bool step() {
    std::byte* const slot = sent < kMessages ? sender->tryAcquire(kWholeSlot) : nullptr;
    if (slot) {
      const uint64_t next = seed + sent++;
      fillPattern(slot, bytesOf(next), next);
      sender->post(bytesOf(next), next);
    }
    if (const Message* message = receiver->tryPeek()) {
      const uint64_t next = seed + received++;
      const bool right = message->tag == next && message->bytes == bytesOf(next) &&
                         matchPattern(message->data, message->bytes, next) == message->bytes;
      wrong += right ? 0 : 1;
      receiver->release();
    }
    return received == kMessages && sender->flushed() && receiver->flushed();
  }
};

TEST_P(BreakContract, NothingIsLostWhenConnectionsBreakAtAnyTime) {
  int broken = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ContractRanks ranks(GetParam(), kRanks);
    ASSERT_TRUE(ranks.made(kRanks));
    Random dice(seed);
    // While they come up, too.
    uint64_t often = 40;
    const auto sometimes = [&] {
      if (dice.upTo(often) == 0)
        broken += ranks.fixture().breakConnections([&] { return dice.upTo(1) == 0; });
    };
    std::vector<std::pair<Link*, Link*>> links;
    for (int a = 0; a < kRanks; ++a)
      for (int b = a + 1; b < kRanks; ++b)
        links.emplace_back(ranks.connect(a, b, kShape), ranks.connect(b, a, kShape));
    ASSERT_TRUE(ranks.pumpUntil([&] {
      sometimes();
      return std::all_of(links.begin(), links.end(), [](const auto& link) {
        return link.first->established() && link.second->established();
      });
    })) << "seed "
        << seed;
    often = 8;
    std::vector<Flow> flows;
    for (const auto& [low, high] : links) {
      for (int channel = 0; channel < kShape.channels; ++channel) {
        flows.push_back({&low->sender(channel), &high->receiver(channel), flows.size() << 32});
        flows.push_back({&high->sender(channel), &low->receiver(channel), flows.size() << 32});
      }
    }
    // A timeout for each message: the total depends on how often connections broke.
    size_t done = 0;
    for (uint64_t received = 0, seen = 0; done < flows.size(); seen = received) {
      ASSERT_TRUE(ranks.pumpUntil([&] {
        sometimes();
        done = received = 0;
        for (Flow& flow : flows) {
          done += flow.step() ? 1 : 0;
          received += flow.received;
        }
        return received > seen || done == flows.size();
      })) << "seed "
          << seed << ", after " << seen << " messages";
    }
    for (const auto& [low, high] : links) {
      ASSERT_TRUE(low->status().ok()) << "seed " << seed << ": " << low->status().toString();
      ASSERT_TRUE(high->status().ok()) << "seed " << seed << ": " << high->status().toString();
    }
    for (const Flow& flow : flows) EXPECT_EQ(flow.wrong, 0u) << "seed " << seed;
  }
  EXPECT_GE(broken, ContractRanks(GetParam(), 1).fixture().canBreak() ? 20 : 0);
}

// What the kernel had taken of a message is lost with the connection; its sender may be about to leave by then.
TEST_P(BreakContract, WhatWasPostedIsThereAlthoughItsSenderLeftMeanwhile) {
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  if (!ranks.fixture().keepsMessagesOfDeparted()) GTEST_SKIP() << GetParam().name << " promises nothing here";
  const auto [low, high] = ranks.link(0, 1, kShape);
  ASSERT_NE(low, nullptr);
  ASSERT_TRUE(sendPattern(ranks, low->sender(0), 1000, 5));
  ranks.fixture().breakConnections([] { return true; });
  Transport& receiving = ranks.at(1);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) [[maybe_unused]] const Status status = receiving.progress();
  });
  ranks.destroy(0);
  stop = true;
  other.join();
  expectPattern(ranks, high->receiver(0), 1000, 5);
}

INSTANTIATE_TEST_SUITE_P(Transports, BreakContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
