#pragma once
// Sender and Receiver over a SlotQueue: a few nanoseconds per call and one fence per message.
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "transport/shared_slots.h"
#include "transport/slots/doorbell.h"
#include "transport/slots/reader_distance.h"
#include "transport/slots/slot_pages.h"
#include "transport/slots/slot_queue.h"
#include "transport/transport.h"

namespace horing {

// Shared by the connections of one link: the peer, the link's number, whether the peer has left, and the first error.
class SlotLinkState {
 public:
  // `transport_status` receives the first error too; it must outlive this.
  SlotLinkState(int rank, int peer, int number, Status* transport_status)
      : rank_(rank), peer_(peer), number_(number), transport_status_(transport_status) {}

  int rank() const { return rank_; }
  int peer() const { return peer_; }
  int number() const { return number_; }
  const Status& status() const { return status_; }
  // The first error stays.
  void fail(Status error);

  // `departed`: set by the peer as its last write; must outlive this object.
  void watch(const std::atomic<uint32_t>* departed) { departed_ = departed; }
  bool peerDeparted() const {
    // acquire: pairs with the peer's release when it leaves, so that its last message is visible first.
    return departed_ != nullptr && departed_->load(std::memory_order_acquire) != 0;
  }
  // Fails with the error for needing something from a peer that has left.
  void failDeparted();

 private:
  int rank_;
  int peer_;
  int number_;
  Status* transport_status_;
  Status status_;
  const std::atomic<uint32_t>* departed_ = nullptr;
};

// Shorter messages move from cache to cache sooner than their lines would be evicted.
inline constexpr uint32_t kRoamingBytes = 2048;

// A connection with slots in memory that both ends access. Everything posted has arrived: flushed() is always true. After an error (an
// invalid counter, a peer that left without returning credits) there are no more free slots. Without memory for a slot, the link fails.
class SlotSender final : public Sender, public SharedSlotsSender {
 public:
  // `first`: the start of the queue's counters.
  SlotSender(const SlotQueue& queue, DoorbellButton bell, SlotLinkState* state, int channel,
             uint64_t first = 0, SlotPages pages = SlotPages())
      : queue_(queue),
        pages_(std::move(pages)),
        slot_(queue.slots),
        head_(first),
        tail_(first),
        due_{1, queue.rows[1].first, queue.rows[2].first},
        bell_(bell),
        state_(state),
        channel_(channel) {}

  std::byte* tryAcquire(uint32_t bytes) override {
    if (head_ - tail_ >= queue_.count && !look()) return nullptr;
    place_ = bytes <= kInlineBytes ? kIsInline : 0;
    if (place_) return slot_ + offsetof(SlotHeader, small);
    // A slot of the largest size, 0, fits a message of any length.
    if (bytes <= queue_.rows[size_].bytes || size_ == 0) [[likely]]
      return reach(number_, slot_, bytes);
    place_ = kIsElsewhere;
    data_size_ = roams_ ? queue_.sizeFor(bytes) : 0;
    const uint32_t number = due_[data_size_];
    return reach(number, queue_.slot(queue_.rows[data_size_], number), bytes);
  }
  void post(uint32_t bytes, Tag tag) override {
    HORING_CHECK_LE(bytes,
                    place_ == kIsInline ? kInlineBytes : queue_.rows[place_ == 0 ? size_ : data_size_].bytes);
    HORING_CHECK_LT(head_ - tail_, queue_.count);
    const bool is_timed = std::exchange(is_asked_, false) && distance_.isDue();
    const int64_t asked_ns = is_timed ? drainedNs() : 0;
    const int64_t before_ns = is_timed ? drainedNs() : 0;
    auto* slot = reinterpret_cast<SlotHeader*>(slot_);
    slot->tag.store(tag, std::memory_order_relaxed);               // ordered by sequence
    slot->bytes.store(bytes | place_, std::memory_order_relaxed);  // ordered by sequence
    if (place_ == kIsElsewhere)
      slot->data.store(take(data_size_), std::memory_order_relaxed);  // ordered by sequence
    // When roaming, the next message is likely to have the same length.
    size_ = roams_ && bytes >= kRoamingBytes ? queue_.sizeFor(bytes) : 0;
    number_ = take(size_);
    slot->next.store(number_, std::memory_order_relaxed);  // ordered by sequence
    // release: pairs with the acquire in SlotReceiver::look().
    slot->sequence.store(++head_, std::memory_order_release);
    if (is_timed) distance_.learn((drainedNs() - before_ns) - (before_ns - asked_ns));
    slot_ = queue_.slot(queue_.rows[size_], number_);
    bell_.press();
  }
  bool flushed() const override { return true; }
  // Messages are timed only for callers of readerIsFar().
  bool readerIsFar() override {
    is_asked_ = true;
    return distance_.isFar();
  }
  void roam(bool all) override { roams_ = all; }

  LandingSender* landings() override { return nullptr; }
  LentSender* lent() override { return nullptr; }
  CallersSlotsSender* callersSlots() override { return nullptr; }
  SharedSlotsSender* sharedSlots() override { return this; }

 private:
  // The next slot of that size, in turn, so that a slot is reused only after at least as many messages as may be in use.
  uint16_t take(size_t size) {
    const SlotRow& row = queue_.rows[size];
    const uint32_t number = due_[size];
    due_[size] = number + 1 == row.first + row.count ? row.first : number + 1;
    return static_cast<uint16_t>(number);
  }
  // Reads the peer's counter. True if there is a free slot.
  bool look();
  // Where the data of that slot go; null without memory for them.
  std::byte* reach(uint32_t number, std::byte* slot, uint32_t bytes) {
    if (pages_.reach(queue_, number, slot, bytes)) [[likely]]
      return slot + sizeof(SlotHeader);
    failWithoutRoom();
    return nullptr;
  }
  void failWithoutRoom();
  // The time at which all stores of this thread have drained.
  static int64_t drainedNs() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return SteadyClock().nowNs();
  }

  SlotQueue queue_;
  SlotPages pages_;
  std::byte* slot_;      // the slot of the next message
  uint16_t number_ = 0;  // of that slot
  uint64_t head_;
  uint64_t tail_;                                // the last value read
  size_t size_ = 0;                              // size of that slot, an index into SlotQueue::rows
  std::array<uint32_t, SlotQueue::kSizes> due_;  // the next slot of each size
  bool roams_ = false;                           // uses smaller slots for messages that fit
  uint32_t place_ = 0;                           // of the acquired slot: a flag of SlotHeader::bytes
  size_t data_size_ = 0;                         // if kIsElsewhere
  ReaderDistance distance_;
  bool is_asked_ = false;  // readerIsFar() was called since the last message
  DoorbellButton bell_;
  SlotLinkState* state_;
  int channel_;
};

// The receiving end. After an error (an invalid counter or length, a peer that left) nothing more arrives.
class SlotReceiver final : public Receiver {
 public:
  SlotReceiver(const SlotQueue& queue, DoorbellButton bell, SlotLinkState* state, int channel,
               uint64_t first = 0)
      : queue_(queue), slot_(queue.slots), tail_(first), bell_(bell), state_(state), channel_(channel) {}

  const Message* tryPeek() override {
    if (shown_) return &message_;
    return look() ? show() : nullptr;
  }
  bool hasMessage() const override {
    // acquire: as in look().
    return shown_ ||
           reinterpret_cast<const SlotHeader*>(slot_)->sequence.load(std::memory_order_acquire) == tail_ + 1;
  }
  void release() override {
    HORING_CHECK(shown_);
    shown_ = false;
    // release: pairs with the acquire in SlotSender::look(); reads of the slot complete before its reuse.
    queue_.header->tail.store(++tail_, std::memory_order_release);
    number_ = next_;
    slot_ = queue_.slot(number_);
    bell_.press();
  }
  bool flushed() const override { return true; }

  LandingReceiver* landings() override { return nullptr; }
  LentReceiver* lent() override { return nullptr; }
  CallersSlotsReceiver* callersSlots() override { return nullptr; }

 private:
  // Whether the next message has arrived.
  bool look();
  // Whether a slot of that number exists; fails the link if not.
  bool isThere(uint32_t number);
  // Checks and returns the oldest message; nullptr if it is invalid.
  const Message* show();

  SlotQueue queue_;
  std::byte* slot_;  // the header of the oldest message
  uint32_t number_ = 0;
  uint32_t next_ = 0;  // the slot of the message after the shown one
  uint64_t tail_;
  bool shown_ = false;
  Message message_;
  DoorbellButton bell_;
  SlotLinkState* state_;
  int channel_;
};

}  // namespace horing
