// Messages from lent memory that land in lent memory: they are correct however often connections break, and the transport does not
// touch memory after it is taken back. A transport may copy all of them.
#include <cstring>

#include "base/random.h"
#include "contract_ranks.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"

namespace horing::testing {
namespace {

// Larger than what the kernel takes at once, so that messages break in the middle.
constexpr LinkShape kShape{.channels = 2, .slots = 3, .slot_bytes = 1u << 19};
constexpr uint32_t kStride = kShape.slot_bytes;
constexpr uint32_t kMessages = 8;

// The data of all flows; tags distinguish them.
const std::vector<std::byte>& contents() {
  static const std::vector<std::byte> all = [] {
    std::vector<std::byte> made(size_t{kMessages} * kStride);
    fillPattern(made.data(), made.size(), 7);
    return made;
  }();
  return all;
}

// One direction of a channel, with its own memory at both ends. Every third message has no landing.
class LentFlow {
 public:
  LentFlow(Sender& sender, Receiver& receiver, uint64_t seed)
      : from(contents()), into(from.size()), sender_(sender), receiver_(receiver), seed_(seed) {}
  Region fromRegion() { return {2 * seed_ + 1, from.data(), from.size()}; }
  Region intoRegion() { return {2 * seed_ + 2, into.data(), into.size()}; }

  void step() {
    tell();
    while (sent < kMessages && trySend()) ++sent;
    while (const Message* const message = received < kMessages ? receiver_.tryPeek() : nullptr) {
      const bool right =
          message->tag == seed_ + received && message->bytes == bytesOf(received) &&
          std::memcmp(message->data, contents().data() + received * size_t{kStride}, message->bytes) == 0;
      wrong += right ? 0 : 1;
      landed += message->data == into.data() + received * size_t{kStride} ? 1 : 0;
      receiver_.release();
      ++received;
    }
  }
  bool done() {
    return received == kMessages && (!receiver_.lent() || receiver_.lent()->settle()) && sender_.flushed();
  }
  // Also what never was there to land.
  void tell() {
    LandingReceiver* const landings = receiver_.landings();
    for (; landings && told < kMessages; ++told)
      if (hasLanding(told) && !landings->tryLand({.memory = into.data() + told * size_t{kStride},
                                                  .bytes = kStride,
                                                  .stride = kStride,
                                                  .messages = 1}))
        return;
  }
  bool trySend() {
    LandingSender* const landings = hasLanding(sent) ? sender_.landings() : nullptr;
    std::byte* const slot = landings ? landings->tryAcquireLanding() : sender_.tryAcquire(kWholeSlot);
    if (!slot) return false;
    const std::byte* const data = from.data() + sent * size_t{kStride};
    const uint32_t bytes = bytesOf(sent);
    LentSender* const lent = taken_back ? nullptr : sender_.lent();
    if (lent && lent->sendsFrom(data, bytes)) {
      lent->postFrom(data, bytes, seed_ + sent);
    } else {
      std::memcpy(slot, contents().data() + sent * size_t{kStride}, bytes);
      sender_.post(bytes, seed_ + sent);
    }
    return true;
  }

  std::vector<std::byte> from, into;
  uint32_t told = 0, sent = 0, received = 0, wrong = 0, landed = 0;
  bool taken_back = false;

 private:
  static bool hasLanding(uint32_t number) { return number % 3 != 2; }
  static uint32_t bytesOf(uint32_t number) { return number % 4 == 3 ? number : 300'000 + 7000 * number; }

  Sender& sender_;
  Receiver& receiver_;
  uint64_t seed_;
};

class LentContract : public TransportContract {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ranks_.made(2));
    const auto [low, high] = ranks_.link(0, 1, kShape);
    ASSERT_NE(low, nullptr);
    links_ = {low, high};
    for (int channel = 0; channel < kShape.channels; ++channel)
      for (const int from : {0, 1})
        flows_.push_back(std::make_unique<LentFlow>(
            links_[from]->sender(channel), links_[1 - from]->receiver(channel), flows_.size() << 32));
  }
  Transport& sending(size_t flow) { return ranks_.at(static_cast<int>(flow % 2)); }
  Transport& receiving(size_t flow) { return ranks_.at(1 - static_cast<int>(flow % 2)); }
  void lend() {
    for (size_t i = 0; i < flows_.size(); ++i) {
      if (RegionAccess* const regions = sending(i).regions()) regions->lend(flows_[i]->fromRegion());
      if (RegionAccess* const regions = receiving(i).regions()) regions->lend(flows_[i]->intoRegion());
    }
  }
  // As after a call that failed.
  static void takeBack(Transport& transport, const Region& region) {
    if (RegionAccess* const regions = transport.regions()) {
      regions->forget(region.id);
      regions->takeBack(region);
    }
  }
  std::string state() {
    std::string all;
    for (const auto& flow : flows_)
      all += "told " + std::to_string(flow->told) + " sent " + std::to_string(flow->sent) + " received " +
             std::to_string(flow->received) + (flow->done() ? " done; " : "; ");
    return all + links_[0]->status().toString() + " " + links_[1]->status().toString();
  }
  bool failed() const { return !links_[0]->status().ok() || !links_[1]->status().ok(); }

  ContractRanks ranks_{GetParam(), 2};
  std::array<Link*, 2> links_{};
  std::vector<std::unique_ptr<LentFlow>> flows_;
};

TEST_P(LentContract, NothingIsLostWhenConnectionsBreakAtAnyTime) {
  for (const int rank : {0, 1}) ASSERT_EQ(ranks_.at(rank).regions() != nullptr, isBetweenNodes(*links_[0]));
  const bool is_verbs = links_[0]->describe().find("verbs") != std::string::npos;
  ASSERT_EQ(links_[0]->receiver(0).lent() != nullptr, is_verbs);
  lend();
  Random dice(7);
  int broken = 0;
  uint32_t seen = 0, received = 0;
  for (bool done = false; !done; seen = received) {
    ASSERT_TRUE(ranks_.pumpUntil([&] {
      if (dice.upTo(3) == 0) broken += ranks_.fixture().breakConnections([&] { return dice.upTo(1) == 0; });
      done = true;
      received = 0;
      for (const auto& flow : flows_) {
        flow->step();
        received += flow->received;
        done = flow->done() && done;
      }
      return done || received > seen;
    })) << "after "
        << seen << " messages: " << links_[0]->status().toString() << links_[1]->status().toString();
  }
  ASSERT_FALSE(failed()) << links_[0]->status().toString() << links_[1]->status().toString();
  EXPECT_GE(broken, ranks_.fixture().canBreak() ? 2 : 0);
  DataMoved moved;
  for (const int rank : {0, 1})
    if (const RegionAccess* const regions = ranks_.at(rank).regions()) moved += regions->dataMoved();
  uint64_t landed = 0;
  for (const auto& flow : flows_) {
    EXPECT_EQ(flow->wrong, 0u);
    landed += flow->landed;
  }
  if (ranks_.at(0).regions()) {
    EXPECT_GT(moved.sent_in_place, 0u);
    EXPECT_EQ(moved.sent_through_slots, 0u);
    EXPECT_GT(landed, 0u);
    EXPECT_EQ(moved.sent_in_place, moved.received_in_place + moved.received_through_slots);
  }
  for (size_t i = 0; i < flows_.size(); ++i) {
    takeBack(sending(i), flows_[i]->fromRegion());
    takeBack(receiving(i), flows_[i]->intoRegion());
  }
}

// At any time: some messages are half written then, some half read. They are right nevertheless, or the link fails.
TEST_P(LentContract, WhatIsTakenBackIsNotTouched) {
  for (int rounds = 0; rounds < 40 && !failed(); rounds += 3) {
    for (size_t i = 0; i < flows_.size(); ++i)
      flows_[i] = std::make_unique<LentFlow>(links_[i % 2]->sender(static_cast<int>(i / 2)),
                                             links_[1 - i % 2]->receiver(static_cast<int>(i / 2)),
                                             static_cast<uint64_t>(rounds) << 40 | i << 32);
    lend();
    for (const auto& flow : flows_) flow->tell();
    for (int round = 0; round < rounds; ++round) {
      for (const auto& flow : flows_) flow->step();
      [[maybe_unused]] const Status moved = ranks_.at(round % 3 == 0 ? 0 : 1).progress();
    }
    for (size_t i = 0; i < flows_.size(); ++i) {
      takeBack(sending(i), flows_[i]->fromRegion());
      takeBack(receiving(i), flows_[i]->intoRegion());
      std::memset(flows_[i]->from.data(), 1, flows_[i]->from.size());
      std::memset(flows_[i]->into.data(), 2, flows_[i]->into.size());
      flows_[i]->taken_back = true;
    }
    EXPECT_TRUE(ranks_.pumpUntil([&] {
      bool done = true;
      for (const auto& flow : flows_) {
        flow->step();
        done = flow->done() && done;
      }
      return done || failed();
    })) << "after "
        << rounds << " rounds: " << state();
    for (const auto& flow : flows_) {
      EXPECT_EQ(flow->wrong, 0u) << "after " << rounds << " rounds";
      const std::vector<std::byte> scribbled(flow->into.size(), std::byte{2});
      EXPECT_EQ(std::memcmp(flow->into.data(), scribbled.data(), scribbled.size()), 0)
          << "after " << rounds << " rounds";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, LentContract, ::testing::ValuesIn(contractCases()), caseName);

}  // namespace
}  // namespace horing::testing
