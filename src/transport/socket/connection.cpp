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
  return slotOf(posted_);
}

bool SocketSender::useSlots(std::span<std::byte> memory) {
  if (posted_ > 0 || memory.size() != link_.slotsBytes()) return false;
  slots_ = memory.data();
  has_own_slots_ = false;
  return true;
}

std::byte* SocketSender::slotOf(uint64_t sequence) const {
  return slots_ + sequence % sent_.size() * link_.shape().slot_bytes;
}

FrameHeader SocketSender::headerOf(uint64_t sequence) const {
  return {.bytes = at(sequence).bytes,
          .channel = static_cast<uint16_t>(channel_),
          .kind = FrameKind::kData,
          .tag = at(sequence).tag,
          .sequence = sequence,
          .credit = 0};
}

void SocketSender::post(uint32_t bytes, Tag tag) {
  HORING_CHECK(acquired_);
  HORING_CHECK_LE(bytes, link_.shape().slot_bytes);
  acquired_ = false;
  const size_t stream = link_.chooseStream(bytes);
  at(posted_) = {.tag = tag, .bytes = bytes, .stream = static_cast<uint16_t>(stream), .written = false};
  ++unsent_;
  const uint64_t sequence = posted_++;
  link_.sendMessage(stream, headerOf(sequence), slotOf(sequence));
}

void SocketSender::frameSent(uint64_t sequence) {
  at(sequence).written = true;
  --unsent_;
}

bool SocketSender::takeCredit(uint64_t credit) {
  if (credit > posted_) return false;
  for (; credited_ < credit; ++credited_) {
    Sent& message = at(credited_);
    if (!message.written) {
      // While its stream is broken, another one may bring the news that it came through in time.
      if (link_.isOpen(message.stream)) return false;
      message.written = true;
      --unsent_;
    }
    link_.messageCredited(message.stream, message.bytes);
  }
  return true;
}

void SocketSender::streamBroke(size_t stream) {
  for (uint64_t sequence = credited_; sequence < posted_; ++sequence) {
    Sent& message = at(sequence);
    if (message.stream != stream || !message.written) continue;
    message.written = false;
    ++unsent_;
  }
}

bool SocketSender::streamBegan(size_t stream, const ChannelState& theirs) {
  if (!takeCredit(theirs.released)) return false;
  if (theirs.hasAnyFrom(posted_)) return false;
  for (uint64_t sequence = credited_; sequence < posted_; ++sequence) {
    if (at(sequence).stream != stream || at(sequence).written) continue;
    if (theirs.has(sequence)) {
      frameSent(sequence);
    } else {
      link_.queueMessage(stream, headerOf(sequence), slotOf(sequence));
    }
  }
  return true;
}

SocketReceiver::SocketReceiver(SocketLink& link, int channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), state_(link.shape().slots) {}

bool SocketReceiver::useSlots(std::span<std::byte> memory) {
  if (memory.size() != link_.slotsBytes()) return false;
  slots_ = memory.data();
  has_own_slots_ = false;
  return true;
}

const Message* SocketReceiver::tryPeekAhead(uint64_t ahead) {
  if (ahead >= state_.size()) return nullptr;
  const Slot& slot = state_[(released_ + ahead) % state_.size()];
  if (slot.state != SlotState::kFull) {
    if (link_.departed()) link_.failDeparted(channel_);
    return nullptr;
  }
  message_ = {slot.data, slot.bytes, slot.tag};
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
  Slot& slot = state_[index];
  if (slot.state != SlotState::kFree) return nullptr;
  slot.state = SlotState::kArriving;
  return slot.data = slots_ + index * link_.shape().slot_bytes;
}

void SocketReceiver::arrived(uint64_t sequence, uint32_t bytes, Tag tag) {
  Slot& slot = state_[sequence % state_.size()];
  slot = {SlotState::kFull, bytes, tag, slot.data};
}

void SocketReceiver::cancel(uint64_t sequence) {
  state_[sequence % state_.size()].state = SlotState::kFree;
}

ChannelState SocketReceiver::state() const {
  ChannelState state{.released = released_, .received = {}};
  for (uint64_t bit = 0; bit < state_.size(); ++bit)
    if (state_[(released_ + bit) % state_.size()].state == SlotState::kFull)
      state.received[bit / 64] |= uint64_t{1} << bit % 64;
  return state;
}

// To a peer that has left no credit is owed.
bool SocketReceiver::flushed() const {
  return credit_sent_ == released_ || link_.departed();
}

void SocketReceiver::noteCreditSent(uint64_t credit) {
  credit_sent_ = std::max(credit_sent_, credit);
}

}  // namespace horing::tcp
