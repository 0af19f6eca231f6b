// Callers' memory as slots: messages are sent from it and received into it, however often connections break, and stay until they are
// released. Transports without this capability report so.
#include <cstdlib>

#include "base/random.h"
#include "contract_ranks.h"
#include "transport/callers_slots.h"
#include "transport/lent_memory.h"

namespace horing::testing {
namespace {

constexpr uint32_t kSlots = 5;
constexpr LinkShape kCallersShape{.channels = 1, .slots = kSlots, .slot_bytes = 1u << 18};
constexpr uint64_t kMessages = 60;

class SlotsContract : public TransportContract {
 protected:
  using Memory = std::unique_ptr<std::byte, void (*)(void*)>;
  static std::span<std::byte> of(const Memory& memory) { return {memory.get(), kBytes}; }
  static Region regionOf(const Memory& memory, uint64_t id) { return {id, memory.get(), kBytes}; }
  static Memory allocate() { return {static_cast<std::byte*>(std::aligned_alloc(64, kBytes)), std::free}; }
  static std::byte* slot(const Memory& memory, uint64_t message) {
    return memory.get() + message % kSlots * kCallersShape.slot_bytes;
  }
  static uint32_t bytesOf(uint64_t message) {
    return static_cast<uint32_t>(message * 9973 % kCallersShape.slot_bytes);
  }
  static constexpr size_t kBytes = size_t{kSlots} * kCallersShape.slot_bytes;
};

TEST_P(SlotsContract, HoldMessagesAtBothEndsUntilTheyAreReleased) {
  const Memory sends = allocate(), receives = allocate();
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [low, high] = ranks.link(0, 1, kCallersShape);
  ASSERT_NE(low, nullptr);
  Sender& sender = low->sender(0);
  Receiver& receiver = high->receiver(0);
  const bool are_callers = isBetweenNodes(*low);
  CallersSlotsSender* const sender_slots = sender.callersSlots();
  CallersSlotsReceiver* const receiver_slots = receiver.callersSlots();
  ASSERT_EQ(sender_slots != nullptr, are_callers);
  ASSERT_EQ(receiver_slots != nullptr, are_callers);
  if (!are_callers) return;
  for (int rank = 0; rank < 2; ++rank)
    if (RegionAccess* const regions = ranks.at(rank).regions())
      regions->lend(regionOf(rank == 0 ? sends : receives, 1));
  EXPECT_FALSE(sender_slots->useSlots(of(sends).first(kCallersShape.slot_bytes))) << "too few";
  EXPECT_TRUE(sender_slots->useSlots(of(sends)));
  EXPECT_TRUE(receiver_slots->useSlots(of(receives)));
  Random dice(7);
  uint64_t sent = 0, seen = 0, released = 0;
  const auto step = [&] {
    if (dice.upTo(200) == 0) ranks.fixture().breakConnections([&] { return dice.upTo(1) == 0; });
    EXPECT_LE(sender_slots->acknowledged(), released) << "who holds it has not released it";
    EXPECT_LE(sent - sender_slots->acknowledged(), kSlots);
    if (std::byte* const at = sent < kMessages ? sender.tryAcquire(kWholeSlot) : nullptr) {
      EXPECT_EQ(at, slot(sends, sent));
      fillPattern(at, bytesOf(sent), sent);
      sender.post(bytesOf(sent), sent);
      ++sent;
    }
    if (const Message* const message = receiver_slots->tryPeekAhead(seen - released)) {
      EXPECT_EQ(message->tag, seen);
      EXPECT_EQ(message->data, slot(receives, seen));
      EXPECT_EQ(message->bytes, bytesOf(seen));
      ++seen;
    }
    // Some at once, and each as it came.
    if (seen - released == kSlots || seen == kMessages || dice.upTo(100) == 0)
      for (; released < seen; ++released) {
        EXPECT_EQ(matchPattern(slot(receives, released), bytesOf(released), released), bytesOf(released));
        receiver.release();
      }
    return released == kMessages && sender_slots->acknowledged() == kMessages;
  };
  EXPECT_TRUE(ranks.pumpUntil(step)) << sent << " sent, " << seen << " seen, " << released << " released, "
                                     << sender_slots->acknowledged() << " acknowledged";
  EXPECT_TRUE(low->status().ok() && high->status().ok())
      << low->status().toString() << high->status().toString();
}

// A message that came before stays where it is.
TEST_P(SlotsContract, AreForMessagesThatComeLater) {
  const Memory receives = allocate();
  ContractRanks ranks(GetParam(), 2);
  ASSERT_TRUE(ranks.made(2));
  const auto [low, high] = ranks.link(0, 1, kCallersShape);
  ASSERT_NE(low, nullptr);
  ASSERT_TRUE(sendPattern(ranks, low->sender(0), 1000, 5));
  Receiver& receiver = high->receiver(0);
  ASSERT_NE(ranks.peek(receiver), nullptr);
  if (CallersSlotsSender* const sender = low->sender(0).callersSlots()) {
    EXPECT_FALSE(sender->useSlots(of(receives))) << "it has sent from others";
  }
  if (!receiver.callersSlots() || !receiver.callersSlots()->useSlots(of(receives))) return;
  expectPattern(ranks, receiver, 1000, 5);
  ASSERT_TRUE(sendPattern(ranks, low->sender(0), 1000, 6));
  const Message* const next = ranks.peek(receiver);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->data, slot(receives, 1));
}

INSTANTIATE_TEST_SUITE_P(Transports, SlotsContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
