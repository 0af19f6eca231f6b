// The contract of a sender's hints: the length of the next message (tryAcquire), and how many slots messages use in turn (roam).
#include <random>

#include "contract_ranks.h"
#include "transport/shared_slots.h"

namespace horing::testing {
namespace {

constexpr LinkShape kShape{.channels = 1, .slots = 4, .slot_bytes = 16384, .room = 11};
constexpr uint32_t kSizes[] = {0,  1,  7,   8,    39,   40,   41,   63,
                               64, 65, 200, 3000, 4096, 5000, 8192, kShape.slot_bytes};
constexpr uint32_t kMostOfSmall = 64;  // bytes; of longer ones the alignment is that of slots

class RoomContract : public TransportContract {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ranks_.made(2));
    const auto [a, b] = ranks_.link(0, 1, kShape);
    ASSERT_NE(a, nullptr);
    is_between_nodes_ = isBetweenNodes(*a);
    sender_ = &a->sender(0);
    receiver_ = &b->receiver(0);
  }

  std::byte* acquireFor(uint32_t bytes) {
    std::byte* place = nullptr;
    ranks_.pumpUntil([&] { return (place = sender_->tryAcquire(bytes)) != nullptr; });
    return place;
  }
  void post(std::byte* place, uint32_t bytes) {
    ASSERT_NE(place, nullptr) << bytes << " bytes";
    fillPattern(place, bytes, sent_);
    sender_->post(bytes, sent_++);
  }
  // The next message, which was sent with so many bytes, comes whole and in its turn.
  void receive(uint32_t bytes) {
    const Message* message = ranks_.peek(*receiver_);
    ASSERT_NE(message, nullptr) << "message " << received_ << " did not arrive";
    EXPECT_EQ(message->tag, received_);
    ASSERT_EQ(message->bytes, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(message->data) % (bytes > kMostOfSmall ? 64 : 8), 0u);
    EXPECT_EQ(matchPattern(message->data, bytes, received_++), bytes);
    receiver_->release();
  }

  ContractRanks ranks_{GetParam(), 2};
  bool is_between_nodes_ = false;
  Sender* sender_ = nullptr;
  Receiver* receiver_ = nullptr;
  uint64_t sent_ = 0, received_ = 0;
};

TEST_P(RoomContract, CarriesMessagesOfTheLengthThatWasAskedFor) {
  for (int round = 0; round < 3; ++round) {
    for (const uint32_t bytes : kSizes) {
      std::byte* const place = acquireFor(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % 8, 0u);
      ranks_.pump();
      EXPECT_EQ(sender_->tryAcquire(bytes), place) << "the same until it is posted";
      post(place, bytes);
      receive(bytes);
      if (HasFatalFailure()) return;
    }
  }
}

// The last acquire counts, and earlier ones are not lost.
TEST_P(RoomContract, LetsTheLengthBeThoughtOver) {
  for (uint64_t i = 0; i < 3 * kShape.slots; ++i) {
    ASSERT_NE(acquireFor(8), nullptr);
    post(sender_->tryAcquire(kWholeSlot), kShape.slot_bytes);
    ASSERT_NE(ranks_.acquire(*sender_), nullptr);
    post(sender_->tryAcquire(8), 8);
    receive(kShape.slot_bytes);
    receive(8);
    if (HasFatalFailure()) return;
  }
}

TEST_P(RoomContract, TakesACreditForAMessageOfAnyLength) {
  uint32_t sizes[kShape.slots];
  for (uint32_t i = 0; i < kShape.slots; ++i) {
    sizes[i] = kSizes[i * 3];
    post(acquireFor(sizes[i]), sizes[i]);
  }
  for (const uint32_t bytes : sizes) {
    for (int i = 0; i < 50; ++i) {
      ranks_.pump();
      for (const uint32_t each : kSizes) ASSERT_EQ(sender_->tryAcquire(each), nullptr);
    }
    receive(bytes);
    post(acquireFor(bytes), bytes);
    if (HasFatalFailure()) return;
  }
  for (const uint32_t bytes : sizes) receive(bytes);
}

// Whenever a sender thinks otherwise: messages come in order, none is overwritten before it was read, and no more are under way than
// there are credits.
TEST_P(RoomContract, MayRoamOrNotWithMessagesUnderWay) {
  constexpr uint64_t kMessages = 3000;
  std::mt19937 random(20261122);
  SharedSlotsSender* const shared = sender_->sharedSlots();
  EXPECT_EQ(shared == nullptr, is_between_nodes_);
  const auto happens = [&](uint32_t percent) { return random() % 100 < percent; };
  const auto sizeOf = [](uint64_t number) { return kSizes[number * 7 % std::size(kSizes)]; };
  EXPECT_TRUE(ranks_.pumpUntil([&] {
    if (shared && happens(20)) shared->roam(happens(50));
    std::byte* place = nullptr;
    while (sent_ < kMessages && happens(80) &&
           (place = happens(50) ? sender_->tryAcquire(sizeOf(sent_)) : sender_->tryAcquire(kWholeSlot)) !=
               nullptr)
      post(place, sizeOf(sent_));
    EXPECT_LE(sent_ - received_, kShape.slots);
    while (received_ < sent_ && happens(70) && receiver_->tryPeek() != nullptr) receive(sizeOf(received_));
    return received_ == kMessages || HasFailure();
  }));
}

INSTANTIATE_TEST_SUITE_P(Transports, RoomContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
