// Messages that are sent from lent memory and land in it, to and from a peer that holds the key but need not say the truth.
#include <sys/mman.h>

#include <algorithm>
#include <csignal>

#include "socket_peers.h"
#include "transport/callers_slots.h"
#include "transport/landings.h"
#include "transport/lent_memory.h"

namespace horing::testing {
namespace {

using tcp::FrameHeader;
using tcp::FrameKind;

constexpr size_t kPart = 100;  // bytes, of a message that comes in two

class LentSocket : public ListeningPeer {
 protected:
  void SetUp() override {
    ListeningPeer::SetUp();
    if (!HasFatalFailure()) rank_->regions()->lend(region_);
  }
  void begin(int streams) {
    HostilePeer::begin(streams);
    std::ranges::fill(memory_, std::byte{0});
  }
  Receiver& receiver() { return link_->receiver(1); }
  Sender& sender() { return link_->sender(1); }
  bool land(size_t offset, size_t bytes, uint32_t stride, uint32_t messages) {
    return receiver().landings()->tryLand(
        {.memory = memory_.data() + offset, .bytes = bytes, .stride = stride, .messages = messages});
  }
  // With a landing.
  static FrameHeader message(uint64_t sequence, uint64_t landing, uint32_t bytes) {
    FrameHeader header = kGood;
    header.sequence = sequence;
    header.bytes = bytes;
    header.landing = landing;
    return header;
  }
  void sayPart(const FrameHeader& header, size_t bytes, std::byte what) {
    Bytes part = header.bytes == 0 ? Bytes() : bytesOf(header);
    part.resize(part.size() + bytes, what);
    peers_[0]->say(part);
  }
  const Message* peek() {
    const Message* message = nullptr;
    EXPECT_TRUE(pumpUntil({rank_.get()}, [&] { return (message = receiver().tryPeek()) != nullptr; }))
        << link_->status().toString();
    return message;
  }
  std::byte* at(size_t offset) { return memory_.data() + offset; }
  // Whether all of the memory is that.
  bool is(std::byte what) const {
    return std::ranges::all_of(memory_, [&](std::byte byte) { return byte == what; });
  }
  void takeBack() {
    rank_->regions()->forget(region_.id);
    rank_->regions()->takeBack(region_);
  }
  void postFrom(size_t offset, uint32_t bytes, Tag tag) {
    ASSERT_NE(sender().tryAcquire(kWholeSlot), nullptr);
    ASSERT_TRUE(sender().lent()->sendsFrom(at(offset), bytes));
    sender().lent()->postFrom(at(offset), bytes, tag);
  }
  std::vector<std::byte> memory_ = std::vector<std::byte>(1024);
  Region region_{.id = 1, .begin = memory_.data(), .bytes = memory_.size()};
};

TEST_F(LentSocket, LandsWhereItWasToldInTheOrderOfTheNumbers) {
  ASSERT_TRUE(land(0, 300, 200, 2));
  ASSERT_TRUE(land(512, 256, 256, 1));
  say(message(1, 2, 100), 100);
  say(message(0, 1, 200), 200);
  say(message(2, 3, 256), 256);
  for (const size_t offset : {0, 200, 512}) {
    const Message* const landed = peek();
    ASSERT_NE(landed, nullptr);
    EXPECT_EQ(landed->data, at(offset));
    receiver().release();
  }
  EXPECT_EQ(memory_[299], std::byte{5});
  EXPECT_EQ(memory_[300], std::byte{0});
  EXPECT_EQ(rank_->regions()->dataMoved().received_in_place, 556u);
  EXPECT_EQ(rank_->regions()->dataMoved().received_through_slots, 0u);
  takeBack();
}

// Memory that a program has protected to see accesses: the kernel's accesses fail, without a signal to the program.
class ProtectedMemory {
 public:
  static constexpr size_t kBytes = 1 << 16;

  ProtectedMemory() {
    memory_ = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touched_ = 0;
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t*, void*) {
      touched_ = touched_ + 1;
      ::mprotect(memory_, kBytes, PROT_READ | PROT_WRITE);
    };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ProtectedMemory(const ProtectedMemory&) = delete;
  ProtectedMemory& operator=(const ProtectedMemory&) = delete;
  ~ProtectedMemory() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(memory_, kBytes);
  }
  void protect() { EXPECT_EQ(::mprotect(memory_, kBytes, PROT_NONE), 0); }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  int touched() const { return touched_; }

 private:
  static inline void* memory_ = nullptr;
  static inline volatile sig_atomic_t touched_ = 0;
  struct sigaction before_ {};
};

TEST_F(LentSocket, WhatTheKernelMayNotTouchGoesThroughSlots) {
  constexpr uint32_t kBytes = 200;
  {
    ProtectedMemory memory;
    const Region region{.id = 2, .begin = memory.data(), .bytes = ProtectedMemory::kBytes};
    rank_->regions()->lend(region);
    ASSERT_TRUE(receiver().landings()->tryLand(
        {.memory = memory.data(), .bytes = kBytes, .stride = kBytes, .messages = 1}));
    // Bytes that arrive with the header are copied, and the kernel reads the rest.
    sayPart(message(0, 1, kBytes), kPart, std::byte{5});
    ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return memory.touched() == 1; }));
    memory.protect();
    peers_[0]->say(Bytes(kBytes - kPart, std::byte{5}));
    const Message* const received = peek();
    ASSERT_NE(received, nullptr);
    EXPECT_NE(received->data, memory.data());
    EXPECT_TRUE(
        std::all_of(received->data, received->data + kBytes, [](std::byte b) { return b == std::byte{5}; }));
    EXPECT_EQ(memory.touched(), 2);
    receiver().release();
    rank_->regions()->takeBack(region);
  }
  const ProtectedMemory memory;
  const Region region{.id = 3, .begin = memory.data(), .bytes = ProtectedMemory::kBytes};
  rank_->regions()->lend(region);
  ASSERT_NE(sender().tryAcquire(kWholeSlot), nullptr);
  sender().lent()->postFrom(memory.data(), kBytes, 7);
  Bytes payload;
  EXPECT_EQ(nextFrame(FrameKind::kData, 0, &payload).bytes, kBytes);
  EXPECT_EQ(payload, Bytes(kBytes));
  EXPECT_EQ(memory.touched(), 1);
  rank_->regions()->takeBack(region);
  takeBack();
}

TEST_F(LentSocket, WhatDoesNotFitOrIsToldLateOrNotAtAllIsInTheSlot) {
  ASSERT_TRUE(land(0, 150, 100, 2));
  std::vector<std::byte> ordinary(100);
  ASSERT_TRUE(receiver().landings()->tryLand(
      {.memory = ordinary.data(), .bytes = 100, .stride = 100, .messages = 1}));
  say(message(0, 1, 101), 101);  // longer than the stride
  say(message(1, 2, 51), 51);    // one byte beyond the end
  say(message(2, 3, 100), 100);  // memory that is not lent
  say(message(3, 4, 100), 100);
  ASSERT_TRUE(
      pumpUntil({rank_.get()}, [&] { return receiver().callersSlots()->tryPeekAhead(3) != nullptr; }));
  EXPECT_TRUE(is(std::byte{0}));
  ASSERT_TRUE(land(0, 200, 100, 2)) << "of which the first has come";
  for (int i = 0; i < 4; ++i) {
    const Message* const in_slot = peek();
    ASSERT_NE(in_slot, nullptr);
    EXPECT_EQ(in_slot->data[in_slot->bytes - 1], std::byte{5});
    receiver().release();
  }
  EXPECT_TRUE(is(std::byte{0}));
  EXPECT_EQ(ordinary[0], std::byte{0});
  say(message(4, 5, 100), 100);
  ASSERT_NE(peek(), nullptr);
  EXPECT_EQ(peek()->data, at(100));
  receiver().release();
  // All of that has been.
  say(message(5, 6, 100), 100);
  ASSERT_NE(peek(), nullptr);
  receiver().release();
  ASSERT_TRUE(land(0, 100, 100, 1));
  EXPECT_EQ(memory_[0], std::byte{0});
  say(message(6, 7, 100), 100);
  ASSERT_NE(peek(), nullptr);
  EXPECT_NE(peek()->data, at(0));
  takeBack();
}

TEST_F(LentSocket, HostileNumbersLeadNowhere) {
  for (const uint64_t landing : {uint64_t{2}, uint64_t{7}, ~uint64_t{0}}) {
    begin(1);
    rank_->regions()->lend(region_);
    ASSERT_TRUE(land(0, 200, 200, 1));
    say(message(0, landing, 200), 200);
    ASSERT_NE(peek(), nullptr);
    EXPECT_TRUE(is(std::byte{0})) << landing;
    receiver().release();
    expectFailure("overwrites another");
    takeBack();
  }
}

// The second of two messages that claim one landing comes when that is over.
TEST_F(LentSocket, ALandingIsOverWithItsMessage) {
  ASSERT_TRUE(land(0, 400, 200, 2));
  say(message(0, 1, 200), 200);
  ASSERT_NE(peek(), nullptr);
  receiver().release();
  memory_[0] = std::byte{1};
  say(message(1, 1, 200), 200);
  ASSERT_NE(peek(), nullptr);
  EXPECT_EQ(memory_[0], std::byte{1});
  receiver().release();
  expectFailure("overwrites another");
}

TEST_F(LentSocket, HalfAMessageComesAgainToTheSamePlaceAfterABreak) {
  ASSERT_TRUE(land(0, 200, 200, 1));
  sayPart(message(0, 1, 200), kPart, std::byte{5});
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return memory_[kPart - 1] == std::byte{5}; }));
  reset(0);
  turn();
  come(0, 2);
  sayState(0, States{});
  sayPart(message(0, 1, 200), 200, std::byte{6});
  const Message* const landed = peek();
  ASSERT_NE(landed, nullptr);
  EXPECT_EQ(landed->data, at(0));
  EXPECT_TRUE(std::all_of(at(0), at(200), [](std::byte byte) { return byte == std::byte{6}; }));
  receiver().release();
  takeBack();
}

TEST_F(LentSocket, WhatIsTakenBackIsNotTouchedByTheRestOfAMessage) {
  ASSERT_TRUE(land(0, 600, 200, 3));
  say(message(0, 1, 200), 200);
  sayPart(message(1, 2, 200), kPart, std::byte{5});
  ASSERT_TRUE(pumpUntil({rank_.get()}, [&] { return memory_[200 + kPart - 1] == std::byte{5}; }));
  takeBack();
  std::ranges::fill(memory_, std::byte{1});
  Bytes rest(200 - kPart, std::byte{5});
  peers_[0]->say(rest);
  say(message(2, 3, 200), 200);
  for (int i = 0; i < 3; ++i) {
    const Message* const whole = peek();
    ASSERT_NE(whole, nullptr);
    EXPECT_TRUE(std::all_of(whole->data, whole->data + 200, [](std::byte byte) {
      return byte == std::byte{5};
    })) << i;
    receiver().release();
  }
  EXPECT_TRUE(is(std::byte{1}));
  EXPECT_TRUE(link_->status().ok());
}

TEST_F(LentSocket, IsSentAgainFromThereUntilTheCreditComes) {
  std::ranges::fill(memory_, std::byte{7});
  postFrom(0, 200, 40);
  Bytes payload;
  nextFrame(FrameKind::kData, 0, &payload);
  EXPECT_EQ(payload, Bytes(200, std::byte{7}));
  EXPECT_TRUE(sender().flushed()) << "nobody waits for the credit";
  reset(0);
  turn();
  come(0, 2);
  sayState(0, States{});
  EXPECT_EQ(nextFrame(FrameKind::kData, 0, &payload).tag, 40u);
  EXPECT_EQ(payload, Bytes(200, std::byte{7}));
  EXPECT_EQ(rank_->regions()->dataMoved().sent_in_place, 200u);
  takeBack();
}

TEST_F(LentSocket, WhatIsTakenBackIsSentAgainAsItWas) {
  std::ranges::fill(memory_, std::byte{7});
  postFrom(0, 200, 40);
  nextFrame(FrameKind::kData);
  reset(0);
  turn();
  postFrom(200, 100, 41);
  takeBack();
  std::ranges::fill(memory_, std::byte{1});
  come(0, 2);
  sayState(0, States{});
  Bytes payload;
  EXPECT_EQ(nextFrame(FrameKind::kData, 0, &payload).tag, 40u);
  EXPECT_EQ(payload, Bytes(200, std::byte{7}));
  EXPECT_EQ(nextFrame(FrameKind::kData, 0, &payload).tag, 41u);
  EXPECT_EQ(payload, Bytes(100, std::byte{7}));
}

TEST_F(LentSocket, MemoryOfGpusIsOfNoUse) {
  const Region of_gpu{
      .id = 2, .begin = memory_.data(), .bytes = memory_.size(), .of = MemoryOf::kGpu, .dmabuf = 0};
  takeBack();
  rank_->regions()->lend(of_gpu);
  EXPECT_FALSE(sender().lent()->sendsFrom(at(0), 8));
  EXPECT_FALSE(rank_->regions()->usesGpuMemory());
  rank_->regions()->takeBack(of_gpu);
}

}  // namespace
}  // namespace horing::testing
