#include "transport/slots/slot_connection.h"

#include <cerrno>
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
  // Read before the counter: a peer returns its last credits before it leaves.
  const bool departed = state_->peerDeparted();
  // acquire: pairs with the release in SlotReceiver::release().
  const uint64_t tail = queue_.header->tail.load(std::memory_order_acquire);
  const uint64_t in_flight = head_ - tail;
  if (in_flight > queue_.count) {
    state_->fail(makeStatus(Code::kRemoteError,
                            "rank %d, link to rank %d, channel %d: the peer reports that it released %" PRIu64
                            " messages of %" PRIu64 " posted over %u slots: its memory is damaged",
                            state_->rank(), state_->peer(), channel_, tail, head_, queue_.count));
    return false;
  }
  tail_ = tail;
  if (in_flight < queue_.count) return true;
  if (departed) state_->failDeparted();
  return false;
}

void SlotSender::failWithoutRoom() {
  const int error = errno;
  if (error == EFAULT)
    return state_->fail(makeStatus(
        Code::kSystemError,
        "rank %d, link to rank %d: no memory is left for a slot. The directory of shared memory has filled "
        "up "
        "since the link was made: enlarge it (mount -o remount,size=...), or name another (HORING_SHM_DIR)",
        state_->rank(), state_->peer()));
  state_->fail(
      systemError(error, "rank %d, link to rank %d: memory for a slot", state_->rank(), state_->peer()));
}

bool SlotReceiver::look() {
  // Read before the message: a peer posts its last message before it leaves.
  const bool departed = state_->peerDeparted();
  const auto* slot = reinterpret_cast<const SlotHeader*>(slot_);
  // acquire: pairs with the release in SlotSender::post().
  const uint64_t sequence = slot->sequence.load(std::memory_order_acquire);
  if (sequence == tail_ + 1) return true;
  if (sequence > tail_) {
    state_->fail(makeStatus(Code::kRemoteError,
                            "rank %d, link to rank %d, channel %d: message %" PRIu64 " is where %" PRIu64
                            " is due: the peer's memory is damaged",
                            state_->rank(), state_->peer(), channel_, sequence, tail_ + 1));
  } else if (departed) {
    state_->failDeparted();
  }
  return false;
}

bool SlotReceiver::isThere(uint32_t number) {
  if (number < queue_.all) return true;
  state_->fail(makeStatus(
      Code::kRemoteError,
      "rank %d, link to rank %d, channel %d: a message in slot %u of %u: the peer's memory is damaged",
      state_->rank(), state_->peer(), channel_, number, queue_.all));
  return false;
}

const Message* SlotReceiver::show() {
  const auto* slot = reinterpret_cast<const SlotHeader*>(slot_);
  const uint32_t word = slot->bytes.load(std::memory_order_relaxed);  // ordered by sequence, read once
  const uint32_t flags = word & (kIsInline | kIsElsewhere);
  const uint32_t bytes = word & ~flags;
  uint32_t place = number_;
  message_.data = slot_ + (flags == kIsInline ? offsetof(SlotHeader, small) : sizeof(SlotHeader));
  if (flags & kIsElsewhere) [[unlikely]] {
    place = slot->data.load(std::memory_order_relaxed);  // ordered by sequence, read once
    if (!isThere(place)) return nullptr;
    message_.data = queue_.slot(place) + sizeof(SlotHeader);
  }
  const uint32_t most = flags == kIsInline ? kInlineBytes : queue_.rowOf(place).bytes;
  if (bytes > most) {
    state_->fail(makeStatus(
        Code::kRemoteError,
        "rank %d, link to rank %d, channel %d: a message of %u bytes in a slot of %u: the peer's memory is "
        "damaged",
        state_->rank(), state_->peer(), channel_, bytes, most));
    return nullptr;
  }
  const uint32_t next = slot->next.load(std::memory_order_relaxed);  // ordered by sequence, read once
  if (!isThere(next)) return nullptr;
  next_ = next;
  message_.bytes = bytes;
  message_.tag = slot->tag.load(std::memory_order_relaxed);  // ordered by sequence
  shown_ = true;
  return &message_;
}

}  // namespace horing
