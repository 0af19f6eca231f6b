#include "transport/slots/slot_connection.h"

#include <cinttypes>

namespace horing {

void SlotLinkState::fail(Status error) {
  if (!status_.ok()) return;
  status_ = std::move(error);
  if (transport_status_->ok()) *transport_status_ = status_;
}

void SlotLinkState::failDeparted() {
  fail(makeStatus(Code::kRemoteError,
                  "rank %d waits for rank %d, which has left: it destroyed or aborted its communicator. Look "
                  "for the first "
                  "error in the output of rank %d",
                  rank_, peer_, peer_));
}

bool SlotSender::look() {
  // Before the counter: a peer that leaves returns its last credits first.
  const bool departed = state_->peerDeparted();
  // acquire: pairs with the release in SlotReceiver::release().
  const uint64_t tail = queue_.header->tail.load(std::memory_order_acquire);
  const uint64_t in_flight = head_ - tail;
  if (in_flight > queue_.count) {
    state_->fail(makeStatus(Code::kRemoteError,
                            "rank %d, link to rank %d, channel %d: the peer says it released %" PRIu64
                            " messages of %" PRIu64 " posted over %u slots: its memory is damaged",
                            state_->rank(), state_->peer(), channel_, tail, head_, queue_.count));
    return false;
  }
  tail_ = tail;
  if (in_flight < queue_.count) return true;
  if (departed) state_->failDeparted();
  return false;
}

bool SlotReceiver::look() {
  // Before the counter: a peer that leaves posts its last message first.
  const bool departed = state_->peerDeparted();
  // acquire: pairs with the release in SlotSender::post().
  const uint64_t head = queue_.header->head.load(std::memory_order_acquire);
  const uint64_t waiting = head - tail_;
  if (waiting > queue_.count) {
    state_->fail(makeStatus(Code::kRemoteError,
                            "rank %d, link to rank %d, channel %d: the peer says it posted %" PRIu64
                            " messages, %" PRIu64
                            " were released, and there are %u slots: its memory is damaged",
                            state_->rank(), state_->peer(), channel_, head, tail_, queue_.count));
    return false;
  }
  head_ = head;
  if (waiting > 0) return true;
  if (departed) state_->failDeparted();
  return false;
}

const Message* SlotReceiver::show() {
  const auto* slot = reinterpret_cast<const SlotHeader*>(slot_);
  const uint32_t bytes = slot->bytes.load(std::memory_order_relaxed);  // ordered by head, read once
  if (bytes > queue_.slot_bytes) {
    state_->fail(makeStatus(
        Code::kRemoteError,
        "rank %d, link to rank %d, channel %d: a message of %u bytes in a slot of %u: the peer's memory is "
        "damaged",
        state_->rank(), state_->peer(), channel_, bytes, queue_.slot_bytes));
    return nullptr;
  }
  const uint32_t next = slot->next.load(std::memory_order_relaxed);  // ordered by head, read once
  if (next >= queue_.room) {
    state_->fail(makeStatus(
        Code::kRemoteError,
        "rank %d, link to rank %d, channel %d: a message in slot %u of %u: the peer's memory is damaged",
        state_->rank(), state_->peer(), channel_, next, queue_.room));
    return nullptr;
  }
  next_ = queue_.slot(next);
  message_.data = slot_ + sizeof(SlotHeader);
  message_.bytes = bytes;
  message_.tag = slot->tag.load(std::memory_order_relaxed);  // ordered by head
  shown_ = true;
  return &message_;
}

}  // namespace horing
