#pragma once
// Sender and Receiver over a SlotQueue: a few nanoseconds a call and one fence a message.
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "transport/slots/doorbell.h"
#include "transport/slots/reader_distance.h"
#include "transport/slots/slot_queue.h"
#include "transport/transport.h"

namespace horing {

// What the connections of one link share: who the peer is, which of its links this is, whether it has left, and the first error.
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

  // `departed` is set by the peer after the last thing it did; it must outlive this.
  void watch(const std::atomic<uint32_t>* departed) { departed_ = departed; }
  bool peerDeparted() const {
    // acquire: pairs with the release by which the peer leaves, so that its last message is seen before this.
    return departed_ != nullptr && departed_->load(std::memory_order_acquire) != 0;
  }
  // The error of asking a peer that has left for something that it will never give.
  void failDeparted();

 private:
  int rank_;
  int peer_;
  int number_;
  Status* transport_status_;
  Status status_;
  const std::atomic<uint32_t>* departed_ = nullptr;
};

// What is shorter comes from cache to cache sooner than it would leave.
inline constexpr uint32_t kRoamingBytes = 2048;

// A connection whose slots are memory that both ends reach. Everything posted has arrived: flushed() is
// always true. After an error (a counter that cannot be, a peer that left with our credits) no more slots are
// to be had.
class SlotSender final : public Sender {
 public:
  // `first`: where the queue's counters started.
  SlotSender(const SlotQueue& queue, DoorbellButton bell, SlotLinkState* state, int channel,
             uint64_t first = 0)
      : queue_(queue),
        slot_(queue.slots),
        head_(first),
        tail_(first),
        due_{1, queue.rows[1].first, queue.rows[2].first},
        bell_(bell),
        state_(state),
        channel_(channel) {}

  std::byte* tryAcquire() override { return tryAcquireFor(queue_.rows[0].bytes); }
  std::byte* tryAcquireFor(uint32_t bytes) override {
    if (head_ - tail_ >= queue_.count && !look()) return nullptr;
    place_ = bytes <= kInlineBytes ? kIsInline : 0;
    if (place_) return slot_ + offsetof(SlotHeader, small);
    if (bytes <= queue_.rows[size_].bytes) [[likely]]
      return slot_ + sizeof(SlotHeader);
    place_ = kIsElsewhere;
    data_size_ = roams_ ? queue_.sizeFor(bytes) : 0;
    return queue_.slot(due_[data_size_]) + sizeof(SlotHeader);
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
    // Of what roams, the next message is likely to be as long.
    size_ = roams_ && bytes >= kRoamingBytes ? queue_.sizeFor(bytes) : 0;
    const uint16_t next = take(size_);
    slot->next.store(next, std::memory_order_relaxed);  // ordered by sequence
    // release: pairs with the acquire in SlotReceiver::look().
    slot->sequence.store(++head_, std::memory_order_release);
    if (is_timed) distance_.learn((drainedNs() - before_ns) - (before_ns - asked_ns));
    slot_ = queue_.slot(queue_.rows[size_], next);
    bell_.press();
  }
  bool flushed() const override { return true; }
  // Messages are timed for those who ask.
  bool readerIsFar() override {
    is_asked_ = true;
    return distance_.isFar();
  }
  void roam(bool far) override { roams_ = far; }

 private:
  // The next slot of that size: in turn, so that one is used again after as many messages as may be in use at a time, or more.
  uint16_t take(size_t size) {
    const SlotRow& row = queue_.rows[size];
    const uint32_t number = due_[size];
    due_[size] = number + 1 == row.first + row.count ? row.first : number + 1;
    return static_cast<uint16_t>(number);
  }
  // Reads the peer's counter. True if there is a free slot.
  bool look();
  // When all that this thread stored has left it.
  static int64_t drainedNs() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return SteadyClock().nowNs();
  }

  SlotQueue queue_;
  std::byte* slot_;  // of the next message
  uint64_t head_;
  uint64_t tail_;                                // as last seen
  size_t size_ = 0;                              // of that slot, as a place in SlotQueue::rows
  std::array<uint32_t, SlotQueue::kSizes> due_;  // the next slot of each size
  bool roams_ = false;                           // goes through smaller slots, where messages fit them
  uint32_t place_ = 0;                           // of what was acquired: a flag of SlotHeader::bytes
  size_t data_size_ = 0;                         // where kIsElsewhere
  ReaderDistance distance_;
  bool is_asked_ = false;  // how far the reader is, since the last message
  DoorbellButton bell_;
  SlotLinkState* state_;
  int channel_;
};

// The other end. After an error (a counter or a length that cannot be, a peer that left) nothing more
// arrives.
class SlotReceiver final : public Receiver {
 public:
  SlotReceiver(const SlotQueue& queue, DoorbellButton bell, SlotLinkState* state, int channel,
               uint64_t first = 0)
      : queue_(queue), slot_(queue.slots), tail_(first), bell_(bell), state_(state), channel_(channel) {}

  const Message* tryPeek() override {
    if (shown_) return &message_;
    return look() ? show() : nullptr;
  }
  void release() override {
    HORING_CHECK(shown_);
    shown_ = false;
    // release: pairs with the acquire in SlotSender::look(); our reads of the slot come before its next use.
    queue_.header->tail.store(++tail_, std::memory_order_release);
    number_ = next_;
    slot_ = queue_.slot(number_);
    bell_.press();
  }
  bool flushed() const override { return true; }

 private:
  // Whether the next message is there.
  bool look();
  // Whether there is a slot of that number; an error if not.
  bool isThere(uint32_t number);
  // Checks the oldest message and describes it; nullptr if it is broken.
  const Message* show();

  SlotQueue queue_;
  std::byte* slot_;  // where the header of the oldest message is
  uint32_t number_ = 0;
  uint32_t next_ = 0;  // of the one after that which is shown
  uint64_t tail_;
  bool shown_ = false;
  Message message_;
  DoorbellButton bell_;
  SlotLinkState* state_;
  int channel_;
};

}  // namespace horing
