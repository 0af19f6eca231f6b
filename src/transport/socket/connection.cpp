#include "transport/socket/connection.h"

#include <algorithm>

#include "base/check.h"
#include "transport/socket/link.h"

namespace horing::tcp {

SocketSender::SocketSender(SocketLink& link, int channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), sent_(link.shape().slots) {}

std::byte* SocketSender::tryAcquire() {
  if (posted_ - credited_ >= sent_.size()) {
    if (link_.departed()) link_.failDeparted(channel_);
    return nullptr;
  }
  acquired_ = true;
  return slots_ + posted_ % sent_.size() * link_.shape().slot_bytes;
}

void SocketSender::post(uint32_t bytes, Tag tag) {
  HORING_CHECK(acquired_);
  HORING_CHECK_LE(bytes, link_.shape().slot_bytes);
  acquired_ = false;
  const size_t slot = posted_ % sent_.size();
  ++unsent_;
  const int stream = link_.sendMessage({.bytes = bytes,
                                        .channel = static_cast<uint16_t>(channel_),
                                        .kind = FrameKind::kData,
                                        .tag = tag,
                                        .sequence = posted_++,
                                        .credit = 0},
                                       slots_ + slot * link_.shape().slot_bytes);
  sent_[slot] = {bytes, stream};
}

bool SocketSender::takeCredit(uint64_t credit) {
  if (credit > posted_) return false;
  for (; credited_ < credit; ++credited_) {
    const Sent& message = sent_[credited_ % sent_.size()];
    link_.messageCredited(message.stream, message.bytes);
  }
  return true;
}

SocketReceiver::SocketReceiver(SocketLink& link, int channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), state_(link.shape().slots) {}

const Message* SocketReceiver::tryPeek() {
  const size_t index = released_ % state_.size();
  const Slot& slot = state_[index];
  if (slot.state != SlotState::kFull) {
    if (link_.departed()) link_.failDeparted(channel_);
    return nullptr;
  }
  message_ = {slots_ + index * link_.shape().slot_bytes, slot.bytes, slot.tag};
  return &message_;
}

void SocketReceiver::release() {
  Slot& slot = state_[released_ % state_.size()];
  HORING_CHECK(slot.state == SlotState::kFull);
  slot.state = SlotState::kFree;
  ++released_;
  link_.noteRelease();
}

std::byte* SocketReceiver::reserve(uint64_t sequence) {
  if (sequence - released_ >= state_.size()) return nullptr;
  const size_t index = sequence % state_.size();
  if (state_[index].state != SlotState::kFree) return nullptr;
  state_[index].state = SlotState::kArriving;
  return slots_ + index * link_.shape().slot_bytes;
}

void SocketReceiver::arrived(uint64_t sequence, uint32_t bytes, Tag tag) {
  state_[sequence % state_.size()] = {SlotState::kFull, bytes, tag};
}

// To a peer that has left no credit is owed.
bool SocketReceiver::flushed() const {
  return credit_sent_ == released_ || link_.departed();
}

void SocketReceiver::noteCreditSent(uint64_t credit) {
  credit_sent_ = std::max(credit_sent_, credit);
}

}  // namespace horing::tcp
