// Slot queues and doorbells by themselves, with a peer that writes nonsense.
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/fd.h"
#include "gtest/gtest.h"
#include "transport/slots/reader_distance.h"
#include "transport/slots/slot_link.h"

namespace horing {
namespace {

constexpr LinkShape kShape{.channels = 1, .slots = 4, .slot_bytes = 16384, .room = 11};
// The room for 7 slots more is cut into halves and quarters.
constexpr uint32_t kHalves = 4, kQuarters = 20, kHalfBytes = 8192, kQuarterBytes = 4096;

// One connection with both ends in one thread, and its memory open to tampering.
class Pipe {
 public:
  explicit Pipe(uint64_t first = 0)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(128, slotQueuePitch(kShape))), &std::free),
        event_(::eventfd(0, EFD_NONBLOCK)),
        sending_(3, 5, 0, &transport_status_),
        receiving_(5, 3, 0, &transport_status_) {
    formatSlotQueue(memory_.get(), kShape, first);
    queue = viewSlotQueue(memory_.get(), kShape);
    const DoorbellButton button(&flag, event_.get());
    sender = std::make_unique<SlotSender>(queue, button, &sending_, 2, first);
    receiver = std::make_unique<SlotReceiver>(queue, button, &receiving_, 2, first);
  }
  void send(uint32_t bytes, Tag tag) {
    ASSERT_NE(sender->tryAcquire(kWholeSlot), nullptr);
    sender->post(bytes, tag);
  }
  SlotHeader& slot(uint32_t index) { return *reinterpret_cast<SlotHeader*>(queue.slot(index)); }
  const Status& sendingStatus() const { return sending_.status(); }
  const Status& receivingStatus() const { return receiving_.status(); }
  const Status& transportStatus() const { return transport_status_; }
  SlotLinkState& sending() { return sending_; }
  SlotLinkState& receiving() { return receiving_; }
  int event() const { return event_.get(); }

  DoorbellFlag flag{};
  SlotQueue queue;
  std::unique_ptr<SlotSender> sender;
  std::unique_ptr<SlotReceiver> receiver;

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
  Fd event_;
  Status transport_status_;
  SlotLinkState sending_, receiving_;
};

void expectDamage(const Status& status, const char* peer) {
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.message().find(peer), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("channel 2"), std::string::npos) << status.message();
}

TEST(SlotQueue, LaysSlotsOutAlignedAndInsideItsBytes) {
  for (const LinkShape& shape : {LinkShape{1, 2, 64}, kShape, LinkShape{8, 7, 4096 + 64}}) {
    std::vector<std::byte> memory(slotQueueBytes(shape) + 128);
    auto* base = memory.data() + (128 - reinterpret_cast<uintptr_t>(memory.data()) % 128) % 128;
    formatSlotQueue(base, shape);
    const SlotQueue queue = viewSlotQueue(base, shape);
    EXPECT_EQ(queue.slot(queue.all), base + slotQueueBytes(shape));
    EXPECT_EQ(queue.all, shape.slots + (shape.room == 0 ? 0 : kHalves + kQuarters));
    EXPECT_EQ((reinterpret_cast<uintptr_t>(queue.slots) + sizeof(SlotHeader)) % 64, 0u);
    for (uint32_t number = 0; number < queue.all; ++number) {
      EXPECT_EQ((queue.slot(number + 1) - queue.slot(number)) % 64, 0);
      EXPECT_GE(queue.slot(number + 1) - queue.slot(number), sizeof(SlotHeader) + queue.rowOf(number).bytes);
    }
    EXPECT_GE(slotQueuePitch(shape), slotQueueBytes(shape));
    EXPECT_EQ(slotQueuePitch(shape) % 128, 0u);
    EXPECT_EQ(slotRowBytes(shape), static_cast<uint64_t>(shape.channels) * slotQueuePitch(shape));
  }
}

TEST(SlotQueue, CountsPastThirtyTwoBits) {
  Pipe pipe((uint64_t{1} << 32) - 3);
  for (Tag tag = 0; tag < 10; ++tag) {
    pipe.send(8, tag);
    const Message* message = pipe.receiver->tryPeek();
    ASSERT_NE(message, nullptr) << tag;
    EXPECT_EQ(message->tag, tag);
    pipe.receiver->release();
  }
  EXPECT_EQ(pipe.slot(9 % kShape.slots).sequence.load(), (uint64_t{1} << 32) + 7);
  EXPECT_TRUE(pipe.transportStatus().ok());
}

// The slots of `messages` messages, of which one is under way at a time.
std::set<const std::byte*> slotsTaken(Pipe& pipe, int messages, uint32_t bytes = kQuarterBytes) {
  std::set<const std::byte*> slots;
  for (int i = 0; i < messages; ++i) {
    slots.insert(pipe.sender->tryAcquire(bytes));
    pipe.sender->post(bytes, 0);
    EXPECT_NE(pipe.receiver->tryPeek(), nullptr);
    pipe.receiver->release();
  }
  return slots;
}

TEST(SlotSender, TakesFewSlotsInTurnOrAllThatThereIsRoomFor) {
  Pipe pipe;
  EXPECT_EQ(slotsTaken(pipe, 50).size(), kShape.slots);
  pipe.sender->roam(true);
  EXPECT_EQ(slotsTaken(pipe, 100).size(), kQuarters + 1) << "one that was promised before";
  EXPECT_EQ(slotsTaken(pipe, 100).size(), kQuarters);
  pipe.sender->roam(false);
  slotsTaken(pipe, 11);
  EXPECT_EQ(slotsTaken(pipe, 50).size(), kShape.slots);
}

TEST(SlotSender, TakesTheSmallestSlotsThatMessagesFit) {
  Pipe pipe;
  pipe.sender->roam(true);
  for (int times = 0; times < 2; ++times) {
    for (const auto& [bytes, slots] : {std::pair{kHalfBytes + 1, kShape.slots},
                                       {kHalfBytes, kHalves},
                                       {kQuarterBytes, kQuarters},
                                       {kQuarterBytes + 1, kHalves},
                                       {kRoamingBytes, kQuarters},
                                       {kRoamingBytes - 1, kShape.slots}}) {
      slotsTaken(pipe, 1, bytes);
      EXPECT_EQ(slotsTaken(pipe, 50, bytes).size(), slots) << bytes;
    }
  }
  EXPECT_TRUE(pipe.transportStatus().ok());
}

// Whenever the turn or the size changes, no message is overwritten before it was read.
TEST(SlotSender, MayChangeTheTurnWithMessagesUnderWay) {
  constexpr uint32_t kSizes[] = {8,          kInlineBytes + 1, kQuarterBytes,
                                 kHalfBytes, kHalfBytes + 1,   kShape.slot_bytes};
  std::mt19937 random(20261122);
  Pipe pipe;
  uint64_t sent = 0, received = 0;
  const auto happens = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  while (received < 20000 && pipe.transportStatus().ok()) {
    if (happens(20)) pipe.sender->roam(happens(50));
    while (happens(80)) {
      const uint32_t bytes = kSizes[random() % std::size(kSizes)];
      std::byte* const slot =
          happens(50) ? pipe.sender->tryAcquire(bytes) : pipe.sender->tryAcquire(kWholeSlot);
      if (!slot) break;
      std::fill_n(slot, bytes, static_cast<std::byte>(sent));
      pipe.sender->post(bytes, sent++);
    }
    for (; happens(70); ++received) {
      const Message* message = pipe.receiver->tryPeek();
      if (!message) break;
      ASSERT_EQ(message->tag, received);
      ASSERT_TRUE(std::all_of(message->data, message->data + message->bytes,
                              [&](std::byte byte) { return byte == static_cast<std::byte>(received); }));
      pipe.receiver->release();
    }
  }
  EXPECT_LE(sent - received, kShape.slots);
  EXPECT_EQ(pipe.transportStatus().message(), "");
}

TEST(SlotReceiver, RefusesASlotThatIsNotThere) {
  for (const uint32_t number : {kShape.slots + kHalves + kQuarters, 0x8000u, uint32_t{UINT16_MAX}}) {
    Pipe pipe;
    pipe.send(8, 1);
    pipe.slot(0).next.store(static_cast<uint16_t>(number));
    EXPECT_EQ(pipe.receiver->tryPeek(), nullptr) << number;
    expectDamage(pipe.receivingStatus(), "rank 3");
    Pipe other;
    other.send(8, 1);
    other.slot(0).bytes.store(8 | kIsElsewhere);
    other.slot(0).data.store(static_cast<uint16_t>(number));
    EXPECT_EQ(other.receiver->tryPeek(), nullptr) << number;
    expectDamage(other.receivingStatus(), "rank 3");
  }
}

TEST(SlotReceiver, RefusesALengthBeyondTheSlot) {
  // As if it were in the first smaller slot.
  for (const uint32_t bytes : {kHalfBytes + 1, kShape.slot_bytes}) {
    Pipe pipe;
    pipe.send(8, 1);
    pipe.slot(0).data.store(kShape.slots);
    pipe.slot(0).bytes.store(bytes | kIsElsewhere);
    EXPECT_EQ(pipe.receiver->tryPeek(), nullptr) << bytes;
    expectDamage(pipe.receivingStatus(), "rank 3");
  }
  for (const uint32_t bytes : {kShape.slot_bytes + 1, 0x20000000u, UINT32_MAX}) {
    Pipe pipe;
    pipe.send(kShape.slot_bytes, 1);
    pipe.slot(0).bytes.store(bytes);
    EXPECT_EQ(pipe.receiver->tryPeek(), nullptr) << bytes;
    expectDamage(pipe.receivingStatus(), "rank 3");
    EXPECT_EQ(pipe.transportStatus().message(), pipe.receivingStatus().message());
    pipe.slot(0).bytes.store(1);
    const std::string first = pipe.receivingStatus().message();
    [[maybe_unused]] const Message* later = pipe.receiver->tryPeek();
    EXPECT_EQ(pipe.receivingStatus().message(), first) << "the first error stays";
  }
}

TEST(SlotReceiver, UsesTheLengthThatItChecked) {
  Pipe pipe;
  pipe.send(100, 1);
  const Message* message = pipe.receiver->tryPeek();
  ASSERT_NE(message, nullptr);
  pipe.slot(0).bytes.store(UINT32_MAX);
  EXPECT_EQ(pipe.receiver->tryPeek()->bytes, 100u);
}

TEST(SlotReceiver, RefusesAMessageThatIsNotDue) {
  for (const uint64_t sequence : {uint64_t{2}, UINT64_MAX, uint64_t{1} << 40}) {
    Pipe pipe;
    pipe.slot(0).sequence.store(sequence);
    EXPECT_EQ(pipe.receiver->tryPeek(), nullptr) << sequence;
    expectDamage(pipe.receivingStatus(), "rank 3");
  }
}

TEST(SlotReceiver, WaitsWhileAnOldMessageIsWhereOneIsDue) {
  Pipe pipe;
  for (Tag tag = 0; tag < kShape.slots; ++tag) {
    pipe.send(8, tag);
    ASSERT_NE(pipe.receiver->tryPeek(), nullptr);
    pipe.receiver->release();
  }
  EXPECT_EQ(pipe.receiver->tryPeek(), nullptr);
  EXPECT_TRUE(pipe.receivingStatus().ok());
}

TEST(SlotReceiver, FindsSmallMessagesInTheirHeaderAndRefusesOnesThatWouldNotFit) {
  Pipe pipe;
  for (const uint32_t bytes : {0u, 1u, kInlineBytes, kInlineBytes + 1, kShape.slot_bytes}) {
    std::byte* const slot = pipe.sender->tryAcquire(bytes);
    ASSERT_NE(slot, nullptr);
    std::memset(slot, static_cast<int>(bytes), bytes);
    pipe.sender->post(bytes, 7);
    const Message* message = pipe.receiver->tryPeek();
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->data, slot);
    EXPECT_EQ(message->bytes, bytes);
    for (uint32_t i = 0; i < bytes; ++i) ASSERT_EQ(message->data[i], static_cast<std::byte>(bytes));
    pipe.receiver->release();
  }
  EXPECT_EQ(pipe.slot(0).bytes.load() & kIsInline, 0u) << "so many are not there";
  pipe.send(8, 8);
  pipe.slot(1).bytes.store((kInlineBytes + 1) | kIsInline);
  EXPECT_EQ(pipe.receiver->tryPeek(), nullptr);
  expectDamage(pipe.receivingStatus(), "rank 3");
}

TEST(SlotSender, RefusesACounterThatCannotBe) {
  for (const uint64_t tail : {uint64_t{5}, UINT64_MAX}) {
    Pipe pipe;
    for (Tag tag = 0; tag < kShape.slots; ++tag) pipe.send(8, tag);
    pipe.queue.header->tail.store(tail);
    EXPECT_EQ(pipe.sender->tryAcquire(kWholeSlot), nullptr) << tail;
    expectDamage(pipe.sendingStatus(), "rank 5");
    EXPECT_EQ(pipe.sender->tryAcquire(kWholeSlot), nullptr);
  }
}

TEST(SlotSender, TakesCreditsOfAPeerThatLeftBeforeItFails) {
  Pipe pipe;
  std::atomic<uint32_t> departed{0};
  pipe.sending().watch(&departed);
  for (Tag tag = 0; tag < kShape.slots; ++tag) pipe.send(8, tag);
  pipe.queue.header->tail.store(1);
  departed.store(1);
  EXPECT_NE(pipe.sender->tryAcquire(kWholeSlot), nullptr);
  EXPECT_TRUE(pipe.sendingStatus().ok());
  pipe.sender->post(8, 9);
  EXPECT_EQ(pipe.sender->tryAcquire(kWholeSlot), nullptr);
  EXPECT_EQ(pipe.sendingStatus().code(), Code::kRemoteError);
}

TEST(SlotReceiver, TakesMessagesOfAPeerThatLeftBeforeItFails) {
  Pipe pipe;
  std::atomic<uint32_t> departed{0};
  pipe.receiving().watch(&departed);
  pipe.send(8, 1);
  departed.store(1);
  ASSERT_NE(pipe.receiver->tryPeek(), nullptr);
  pipe.receiver->release();
  EXPECT_TRUE(pipe.receivingStatus().ok()) << pipe.receivingStatus().message();
  EXPECT_EQ(pipe.receiver->tryPeek(), nullptr);
  EXPECT_EQ(pipe.receivingStatus().code(), Code::kRemoteError);
}

TEST(SlotSender, StopsTheProgramWhenMisused) {
  Pipe pipe;
  ASSERT_NE(pipe.sender->tryAcquire(kWholeSlot), nullptr);
  EXPECT_DEATH(pipe.sender->post(kShape.slot_bytes + 1, 0), "check failed");
  ASSERT_NE(pipe.sender->tryAcquire(8), nullptr);
  EXPECT_DEATH(pipe.sender->post(kInlineBytes + 1, 0), "check failed");
  EXPECT_DEATH(pipe.receiver->release(), "check failed");
}

bool rung(int fd) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

// One time in five it returns the opposite.
void learn(ReaderDistance& distance, int times, int64_t most_ns, int64_t some_ns) {
  for (int i = 0; i < times; ++i) distance.learn(i % 5 == 4 ? some_ns : most_ns);
}

TEST(ReaderDistance, BelievesWhatMostTimesSay) {
  constexpr int64_t kNearNs = 40, kFarNs = 160, kPreemptedNs = 3'000'000;
  ReaderDistance distance;
  EXPECT_FALSE(distance.isFar());
  for (int i = 0; i < 1000; ++i) {
    distance.learn(i % 5 == 4 ? kPreemptedNs : kNearNs);
    ASSERT_FALSE(distance.isFar()) << i;
  }
  learn(distance, 20, kFarNs, kNearNs);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(distance.isFar()) << i;
    distance.learn(i % 5 == 4 ? kNearNs : kFarNs);
  }
  learn(distance, 20, kNearNs, kPreemptedNs);
  EXPECT_FALSE(distance.isFar());
}

TEST(ReaderDistance, StaysWhatItWasBetweenNearAndFar) {
  constexpr int64_t kBetweenNs = 70;
  ReaderDistance distance;
  learn(distance, 50, kBetweenNs, kBetweenNs);
  EXPECT_FALSE(distance.isFar());
  learn(distance, 20, 160, kBetweenNs);
  EXPECT_TRUE(distance.isFar());
  learn(distance, 50, kBetweenNs, kBetweenNs);
  EXPECT_TRUE(distance.isFar());
}

TEST(ReaderDistance, AsksSeldomUnlessInDoubt) {
  ReaderDistance distance;
  const auto due = [&] {
    int count = 0;
    for (int i = 0; i < 320; ++i) count += distance.isDue();
    return count;
  };
  EXPECT_EQ(due(), 10);
  distance.learn(INT64_MAX);
  EXPECT_EQ(due(), 320);
  distance.learn(0);
  EXPECT_EQ(due(), 10);
}

TEST(Doorbell, RingsOnlyWhoSleeps) {
  Pipe pipe;
  Doorbell bell(&pipe.flag, pipe.event());
  pipe.send(8, 1);
  EXPECT_FALSE(rung(pipe.event())) << "nobody sleeps";
  bell.beginWait();
  EXPECT_FALSE(rung(pipe.event()));
  pipe.send(8, 2);
  EXPECT_TRUE(rung(pipe.event())) << "post() rings";
  EXPECT_EQ(pipe.flag.sleeping.load(), 0u) << "once is enough";
  bell.endWait();
  EXPECT_FALSE(rung(pipe.event())) << "swallowed";

  ASSERT_NE(pipe.receiver->tryPeek(), nullptr);
  bell.beginWait();
  pipe.receiver->release();
  EXPECT_TRUE(rung(pipe.event())) << "release() rings";
  bell.endWait();
  bell.beginWait();
  bell.endWait();
  pipe.send(8, 3);
  EXPECT_FALSE(rung(pipe.event())) << "awake again";
}

}  // namespace
}  // namespace horing
