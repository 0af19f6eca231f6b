// Messages that are sent from lent memory and land in it, or whose slots are lent, over devices in memory (verbs_fake.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "contract_ranks.h"
#include "transport/callers_slots.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"
#include "transport/loopback/loopback_transport.h"
#include "transport/verbs/verbs_transport.h"
#include "verbs_fake.h"

namespace horing::testing {
namespace {

constexpr uint32_t kStride = 4096;
constexpr LinkShape kShape{.channels = 1, .slots = 8, .slot_bytes = kStride};
constexpr uint32_t kMessages = 100;

// Rank 0 sends to rank 1; two wires are between them.
class VerbsLanding : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto hub = LoopbackHub::create(2);
    ASSERT_TRUE(hub.ok());
    for (int rank = 0; rank < 2; ++rank) {
      VerbsOptions options{.rank = rank, .devices = rank == 0 ? "a" : "b"};
      options.library = &verbs_.library();
      options.clock = &clock_;
      options.log = Log(LogLevel::kNone);
      auto made = makeVerbsTransport(options, makeLoopbackTransport(hub.value(), rank).take());
      ASSERT_TRUE(made.ok()) << made.status().toString();
      ranks_[rank] = made.take();
    }
    for (int rank = 0; rank < 2; ++rank) {
      auto link = ranks_[rank]->connect(1 - rank, ranks_[1 - rank]->address(), kShape);
      ASSERT_TRUE(link.ok()) << link.status().toString();
      links_[rank] = link.value();
    }
    ASSERT_TRUE(pumpUntil(ranks_, [&] { return links_[0]->established() && links_[1]->established(); }));
    for (uint32_t i = 0; i < kMessages; ++i) fillPattern(from_.data() + i * kStride, kStride, i);
  }
  static FakeDevice device(const char* name, int wire, int host) {
    return {.name = name, .wire = wire, .gid = fakeGid(wire, host)};
  }
  void lend() {
    ranks_[0]->regions()->lend(regionOf(1, from_));
    ranks_[1]->regions()->lend(regionOf(2, into_));
  }
  static Region regionOf(uint64_t id, std::vector<std::byte>& memory) {
    return {id, memory.data(), memory.size()};
  }
  Sender& sender() { return links_[0]->sender(0); }
  Receiver& receiver() { return links_[1]->receiver(0); }
  bool land(std::byte* memory, uint32_t messages) {
    return receiver().landings()->tryLand(
        {.memory = memory, .bytes = size_t{messages} * kStride, .stride = kStride, .messages = messages});
  }
  bool trySend(uint32_t number) {
    std::byte* const slot = sender().landings()->tryAcquireLanding();
    if (!slot) return false;
    const std::byte* const data = from_.data() + number * kStride;
    if (sender().lent()->sendsFrom(data, kStride)) {
      sender().lent()->postFrom(data, kStride, number);
    } else {
      std::copy_n(data, kStride, slot);
      sender().post(kStride, number);
    }
    return true;
  }
  const Message* awaitMessage() {
    const Message* message = nullptr;
    EXPECT_TRUE(pumpUntil(ranks_, [&] { return (message = receiver().tryPeek()) != nullptr; }));
    return message;
  }
  // All messages; `at` is called when that many have arrived.
  void transferAll(uint32_t at = 0, const std::function<void()>& then = {}) {
    uint32_t told = 0, sent = 0, received = 0, wrong = 0;
    EXPECT_TRUE(pumpUntil(ranks_, [&] {
      while (told < kMessages && land(into_.data() + told * kStride, std::min(4u, kMessages - told)))
        told += 4;
      while (sent < kMessages && trySend(sent)) ++sent;
      while (const Message* const message = receiver().tryPeek()) {
        const bool right = message->tag == received && message->bytes == kStride &&
                           matchPattern(message->data, kStride, received) == kStride;
        wrong += right ? 0 : 1;
        landed_ += message->data == into_.data() + received * kStride ? 1 : 0;
        receiver().release();
        if (++received == at) then();
      }
      return received == kMessages && receiver().lent()->settle() && sender().flushed();
    }));
    EXPECT_EQ(wrong, 0u);
  }

  SteadyClock clock_;
  FakeVerbs verbs_{{device("a0", 0, 1), device("a1", 1, 1), device("b0", 0, 2), device("b1", 1, 2)}};
  std::unique_ptr<Transport> ranks_[2];
  Link* links_[2] = {};
  std::vector<std::byte> from_ = std::vector<std::byte>(kMessages * kStride);
  std::vector<std::byte> into_ = std::vector<std::byte>(kMessages * kStride);
  uint32_t landed_ = 0;
};

TEST_F(VerbsLanding, NothingGoesThroughSlotsBetweenLentMemories) {
  lend();
  transferAll();
  EXPECT_EQ(landed_, kMessages);
  EXPECT_EQ(from_, into_);
  EXPECT_EQ(ranks_[0]->regions()->dataMoved().sent_in_place, from_.size());
  EXPECT_EQ(ranks_[0]->regions()->dataMoved().sent_through_slots, 0u);
  EXPECT_EQ(ranks_[1]->regions()->dataMoved().received_in_place, from_.size());
  EXPECT_EQ(ranks_[1]->regions()->dataMoved().received_through_slots, 0u);
}

TEST_F(VerbsLanding, EitherEndMayHaveOrdinaryMemory) {
  ranks_[0]->regions()->lend(regionOf(1, from_));
  transferAll();
  EXPECT_EQ(landed_, 0u);
  EXPECT_EQ(ranks_[0]->regions()->dataMoved().sent_in_place, from_.size());
  EXPECT_EQ(ranks_[1]->regions()->dataMoved().received_in_place, 0u);
  ranks_[0]->regions()->takeBack(regionOf(1, from_));
  ranks_[1]->regions()->lend(regionOf(2, into_));
  std::vector<std::byte> other(kStride);  // of the same call
  ranks_[0]->regions()->lend(regionOf(3, other));
  transferAll();
  EXPECT_EQ(landed_, kMessages);
  EXPECT_EQ(ranks_[0]->regions()->dataMoved().sent_through_slots, from_.size());
  EXPECT_EQ(from_, into_);
}

TEST_F(VerbsLanding, ASenderWaitsForItAndGivesItsMemoryBackWithTheCredit) {
  lend();
  EXPECT_EQ(sender().landings()->tryAcquireLanding(), nullptr);
  ASSERT_TRUE(land(into_.data(), 1));
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return trySend(0); }));
  ASSERT_NE(awaitMessage(), nullptr);
  EXPECT_FALSE(sender().flushed()) << "it may have to be sent again";
  EXPECT_TRUE(receiver().lent()->settle()) << "nothing was released that could be";
  receiver().release();
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return receiver().lent()->settle() && sender().flushed(); }));
  EXPECT_EQ(sender().landings()->tryAcquireLanding(), nullptr) << "there was one landing";
}

TEST_F(VerbsLanding, ASenderThatLendsNothingDoesNot) {
  ranks_[1]->regions()->lend(regionOf(2, into_));
  for (uint32_t number = 0; number < 3; ++number) EXPECT_TRUE(trySend(number));
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return sender().flushed(); }));
  const auto next = [&](uint32_t number) {
    const Message* const message = awaitMessage();
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->tag, number);
    EXPECT_EQ(matchPattern(message->data, message->bytes, number), kStride) << number;
    landed_ += message->data == into_.data() + number * kStride ? 1 : 0;
    receiver().release();
  };
  EXPECT_EQ(receiver().tryPeek(), nullptr) << "this end has not come so far";
  ASSERT_TRUE(land(into_.data(), 2));
  next(0);
  next(1);
  EXPECT_EQ(receiver().tryPeek(), nullptr);
  // One of these words is about messages sent before it.
  ASSERT_TRUE(land(into_.data() + 2 * kStride, 2));
  next(2);
  EXPECT_EQ(landed_, 0u);
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return receiver().flushed(); }));
  ASSERT_TRUE(trySend(3));
  next(3);
  EXPECT_EQ(landed_, 1u) << "its word had come";
}

TEST_F(VerbsLanding, WhatDoesNotFitGoesIntoTheSlot) {
  lend();
  const Landing narrow{.memory = into_.data(), .bytes = 1000, .stride = 600, .messages = 2};
  ASSERT_TRUE(receiver().landings()->tryLand(narrow));
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return sender().landings()->tryAcquireLanding() != nullptr; }));
  sender().lent()->postFrom(from_.data(), 600, 7);
  ASSERT_NE(sender().landings()->tryAcquireLanding(), nullptr);
  sender().lent()->postFrom(from_.data(), 500, 8);
  const Message* message = awaitMessage();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->data, into_.data());
  receiver().release();
  message = awaitMessage();
  ASSERT_NE(message, nullptr);
  EXPECT_NE(message->data, into_.data() + 600) << "100 bytes beyond the end";
  EXPECT_EQ(message->bytes, 500u);
  receiver().release();
  EXPECT_EQ(into_[600], std::byte{0});
}

// Messages of some sizes; a library would copy the smallest if it were in host memory. Host accesses crash.
TEST_F(VerbsLanding, DevicesAloneTouchMemoryOfGpus) {
  const FakeGpuMemory from(from_.size(), 8192), into(from_.size());
  std::copy(from_.begin(), from_.end(), from.data());
  ranks_[0]->regions()->lend(from.region(1));
  ranks_[1]->regions()->lend(into.region(2));
  const auto bytesOf = [](uint32_t number) { return number % 3 == 0 ? 100 : kStride; };
  uint32_t told = 0, sent = 0, received = 0;
  EXPECT_TRUE(pumpUntil(ranks_, [&] {
    while (told < kMessages && land(into.begin() + told * kStride, 1)) ++told;
    for (; sent < kMessages && sender().landings()->tryAcquireLanding(); ++sent) {
      const std::byte* const data = from.begin() + sent * kStride;
      if (!sender().lent()->sendsFrom(data, bytesOf(sent))) return true;
      sender().lent()->postFrom(data, bytesOf(sent), sent);
    }
    for (const Message* message; (message = receiver().tryPeek()) != nullptr; receiver().release()) {
      if (message->data != into.begin() + received * kStride || message->bytes != bytesOf(received))
        return true;
      if (++received == 20) verbs_.pull(0, FakeVerbs::Pull::kSilently);
    }
    return received == kMessages && receiver().lent()->settle() && sender().flushed();
  }));
  EXPECT_EQ(received, kMessages);
  for (uint32_t i = 0; i < kMessages; ++i)
    EXPECT_EQ(std::memcmp(into.data() + i * kStride, from.data() + i * kStride, bytesOf(i)), 0) << i;
  EXPECT_EQ(ranks_[0]->regions()->dataMoved().sent_through_slots, 0u);
  EXPECT_EQ(ranks_[1]->regions()->dataMoved().received_through_slots, 0u);
  ranks_[0]->regions()->takeBack(from.region(1));
  ranks_[1]->regions()->takeBack(into.region(2));
  ranks_[0]->regions()->forget(1);
  ranks_[1]->regions()->forget(2);
}

TEST_F(VerbsLanding, MemoryOfAGpuIsNotSentFromWhereOneDeviceDoesNotTakeIt) {
  const FakeGpuMemory from(kStride);
  verbs_.device("a1").dmabufs = false;
  const int before = verbs_.resources();
  ranks_[0]->regions()->lend(from.region(1));
  EXPECT_FALSE(sender().lent()->sendsFrom(from.begin(), kStride));
  EXPECT_EQ(verbs_.resources(), before) << "no half of it";
  ranks_[0]->regions()->takeBack(from.region(1));
}

TEST_F(VerbsLanding, APulledWireCostsNothing) {
  lend();
  transferAll(20, [&] { verbs_.pull(0, FakeVerbs::Pull::kSilently); });
  EXPECT_EQ(landed_, kMessages);
  EXPECT_EQ(from_, into_);
  EXPECT_NE(links_[0]->describe().find("1 of them lost"), std::string::npos) << links_[0]->describe();
  EXPECT_EQ(ranks_[1]->regions()->dataMoved().received_through_slots, 0u);
}

TEST_F(VerbsLanding, ForgottenMemoryCanBeWrittenByNobody) {
  const int before = verbs_.resources();
  lend();
  EXPECT_EQ(verbs_.resources(), before + 4) << "two devices at each end";
  ASSERT_TRUE(land(into_.data(), 1));
  ranks_[1]->regions()->forget(2);
  ranks_[1]->regions()->takeBack(regionOf(2, into_));
  EXPECT_EQ(verbs_.resources(), before + 2);
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return trySend(0); }));
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return !links_[0]->status().ok(); })) << "the link fails instead";
  EXPECT_EQ(receiver().tryPeek(), nullptr);
  EXPECT_EQ(into_[0], std::byte{0});
}

// Slots of a caller at both ends: all messages, several at a time.
class VerbsCallersSlots : public VerbsLanding {
 protected:
  static constexpr size_t kBytes = size_t{kShape.slots} * kStride;
  static size_t placeOf(uint64_t message) { return message % kShape.slots * kStride; }
  // `written` and `read` are the parts that tests may access.
  void transfer(const std::byte* sends, std::byte* written, const std::byte* receives, const std::byte* read,
                uint64_t at = UINT64_MAX, const std::function<void()>& then = {}) {
    uint64_t sent = 0, seen = 0, released = 0, wrong = 0, in_place = 0;
    EXPECT_TRUE(pumpUntil(ranks_, [&] {
      for (const std::byte* slot; sent < kMessages && (slot = sender().tryAcquire(kWholeSlot)) != nullptr;
           ++sent) {
        if (slot != sends + placeOf(sent)) return true;
        fillPattern(written + placeOf(sent), kStride, sent);
        sender().post(kStride, sent);
      }
      for (const Message* message;
           (message = receiver().callersSlots()->tryPeekAhead(seen - released)) != nullptr; ++seen) {
        in_place += message->data == receives + placeOf(seen) ? 1 : 0;
        wrong += message->tag == seen && message->bytes == kStride ? 0 : 1;
        if (seen == at) then();
      }
      if (seen - released >= 3 || seen == kMessages)
        for (; released < seen; ++released) {
          wrong += matchPattern(read + placeOf(released), kStride, released) == kStride ? 0 : 1;
          receiver().release();
        }
      return released == kMessages && sender().callersSlots()->acknowledged() == kMessages;
    }));
    EXPECT_EQ(released, kMessages);
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(in_place, kMessages);
    EXPECT_EQ(ranks_[0]->regions()->dataMoved().sent_through_slots, 0u);
    EXPECT_EQ(ranks_[1]->regions()->dataMoved().received_through_slots, 0u);
  }
};

TEST_F(VerbsCallersSlots, AreSentFromAndWrittenToByAdaptersAloneThoughAWireIsPulled) {
  const FakeGpuMemory from(kBytes, 8192), into(kBytes);
  ranks_[0]->regions()->lend(from.region(1));
  ranks_[1]->regions()->lend(into.region(2));
  EXPECT_TRUE(ranks_[0]->regions()->holds(from.begin(), kBytes));
  EXPECT_FALSE(ranks_[0]->regions()->holds(from.begin() + 1, kBytes));
  ASSERT_TRUE(sender().callersSlots()->useSlots({from.begin(), kBytes}, MemoryOf::kGpu));
  EXPECT_EQ(sender().tryAcquire(kWholeSlot), nullptr) << "nobody has told where messages go";
  ASSERT_TRUE(receiver().callersSlots()->useSlots({into.begin(), kBytes}, MemoryOf::kGpu));
  transfer(from.begin(), from.data(), into.begin(), into.data(), 30,
           [&] { verbs_.pull(0, FakeVerbs::Pull::kSilently); });
  EXPECT_NE(links_[0]->describe().find("1 of them lost"), std::string::npos) << links_[0]->describe();
}

TEST_F(VerbsCallersSlots, AreTheLinksWhereOneEndLendsNone) {
  ranks_[0]->regions()->lend(regionOf(1, from_));
  const std::span<std::byte> own(from_.data(), kBytes), other(into_.data(), kBytes);
  ASSERT_TRUE(sender().callersSlots()->useSlots(own));
  EXPECT_FALSE(receiver().callersSlots()->useSlots(other)) << "it is not lent";
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return sender().tryAcquire(kWholeSlot) != nullptr; }));
  sender().post(kStride, 5);
  const Message* const message = awaitMessage();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(std::memcmp(message->data, own.data(), kStride), 0);
  EXPECT_EQ(sender().callersSlots()->acknowledged(), 0u);
  receiver().release();
  EXPECT_TRUE(pumpUntil(ranks_, [&] { return sender().callersSlots()->acknowledged() == 1; }));
}

TEST_F(VerbsCallersSlots, OfAReceiverAreAwaitedByASenderThatLendsNothing) {
  ranks_[1]->regions()->lend(regionOf(2, into_));
  EXPECT_FALSE(sender().callersSlots()->useSlots({from_.data(), kBytes})) << "it is not lent";
  EXPECT_EQ(sender().tryAcquire(kWholeSlot), nullptr);
  ASSERT_TRUE(receiver().callersSlots()->useSlots({into_.data(), kBytes}));
  EXPECT_FALSE(receiver().callersSlots()->useSlots({into_.data(), kBytes})) << "it has said so already";
  std::byte* slot = nullptr;
  ASSERT_TRUE(pumpUntil(ranks_, [&] { return (slot = sender().tryAcquire(kWholeSlot)) != nullptr; }));
  fillPattern(slot, kStride, 7);
  sender().post(kStride, 7);
  const Message* const message = awaitMessage();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->data, into_.data());
  EXPECT_EQ(matchPattern(message->data, kStride, 7), kStride);
}

TEST_F(VerbsCallersSlots, HaveWhatComesAfterTheWordOfAReceiverThatNobodyAwaits) {
  ranks_[1]->regions()->lend(regionOf(2, into_));
  ASSERT_TRUE(receiver().callersSlots()->useSlots({into_.data(), kBytes}));
  for (uint64_t number = 0; number < 2; ++number) {
    std::byte* const slot = sender().tryAcquire(kWholeSlot);
    ASSERT_NE(slot, nullptr);
    fillPattern(slot, kStride, number);
    sender().post(kStride, number);
    const Message* const message = awaitMessage();
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->data == into_.data() + placeOf(number), number == 1) << "of message " << number;
    EXPECT_EQ(matchPattern(message->data, kStride, number), kStride);
    receiver().release();
  }
}

}  // namespace
}  // namespace horing::testing
