#pragma once
// Sender and Receiver over a SlotQueue: a few nanoseconds a call and one fence a message.
#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/status.h"
#include "transport/slots/doorbell.h"
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
        turn_(queue.count),
        bell_(bell),
        state_(state),
        channel_(channel) {}

  std::byte* tryAcquire() override {
    if (head_ - tail_ >= queue_.count && !look()) return nullptr;
    return slot_ + sizeof(SlotHeader);
  }
  void post(uint32_t bytes, Tag tag) override {
    HORING_CHECK_LE(bytes, queue_.slot_bytes);
    HORING_CHECK_LT(head_ - tail_, queue_.count);
    auto* slot = reinterpret_cast<SlotHeader*>(slot_);
    slot->tag.store(tag, std::memory_order_relaxed);      // ordered by head
    slot->bytes.store(bytes, std::memory_order_relaxed);  // ordered by head
    // Between two uses of a slot are at least as many others as may be in use at a time, wherever the turn is.
    if (++number_ >= turn_) number_ = 0;
    slot->next.store(number_, std::memory_order_relaxed);  // ordered by head
    // release: pairs with the acquire in SlotReceiver::look().
    queue_.header->head.store(++head_, std::memory_order_release);
    slot_ = queue_.slot(number_);
    bell_.press();
  }
  bool flushed() const override { return true; }
  void roam(bool far) override { turn_ = far ? queue_.room : queue_.count; }

 private:
  // Reads the peer's counter. True if there is a free slot.
  bool look();

  SlotQueue queue_;
  std::byte* slot_;  // of the next message
  uint64_t head_;
  uint64_t tail_;        // as last seen
  uint32_t number_ = 0;  // of that slot
  uint32_t turn_;        // slots in turn
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
      : queue_(queue),
        slot_(queue.slots),
        tail_(first),
        head_(first),
        bell_(bell),
        state_(state),
        channel_(channel) {}

  const Message* tryPeek() override {
    if (shown_) return &message_;
    if (head_ == tail_ && !look()) return nullptr;
    return show();
  }
  void release() override {
    HORING_CHECK(shown_);
    shown_ = false;
    // release: pairs with the acquire in SlotSender::look(); our reads of the slot come before its next use.
    queue_.header->tail.store(++tail_, std::memory_order_release);
    slot_ = next_;
    bell_.press();
  }
  bool flushed() const override { return true; }

 private:
  // Reads the peer's counter. True if there is a message.
  bool look();
  // Checks the oldest message and describes it; nullptr if it is broken.
  const Message* show();

  SlotQueue queue_;
  std::byte* slot_;            // of the oldest message
  std::byte* next_ = nullptr;  // of the one after that which is shown
  uint64_t tail_;
  uint64_t head_;  // as last seen
  bool shown_ = false;
  Message message_;
  DoorbellButton bell_;
  SlotLinkState* state_;
  int channel_;
};

}  // namespace horing
