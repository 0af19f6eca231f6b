#include "transport/verbs/connection.h"

#include <cstring>

#include "base/check.h"
#include "transport/verbs/link.h"

namespace horing::verbs {

VerbsSender::VerbsSender(VerbsLink& link, uint32_t channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), sent_(link.shape().slots) {}

std::byte* VerbsSender::headerOf(uint64_t sequence) const {
  return slots_ + sequence % sent_.size() * slotStride(link_.shape()) + kSlotHeaderOffset;
}

std::byte* VerbsSender::tryAcquire() {
  if (posted_ - credited_ >= sent_.size()) {
    if (link_.departed()) link_.failDeparted(channel_);
    return nullptr;
  }
  acquired_ = true;
  return headerOf(posted_) + sizeof(SlotHeader);
}

void VerbsSender::post(uint32_t bytes, Tag tag) {
  enqueue({.bytes = bytes}, {.tag = tag, .credit = 0, .flags = 0});
}

bool VerbsSender::sendsFrom(const std::byte* memory, uint32_t bytes) const {
  return link_.lentMemory(memory, bytes) != nullptr;
}

void VerbsSender::postFrom(const std::byte* memory, uint32_t bytes, Tag tag) {
  lent_before_ = posted_ + 1;
  enqueue({.memory = memory, .bytes = bytes}, {.tag = tag, .credit = 0, .flags = kFromCaller});
}

void VerbsSender::enqueue(const Sent& message, const SlotHeader& header) {
  HORING_CHECK(acquired_);
  HORING_CHECK_LE(message.bytes, link_.shape().slot_bytes);
  acquired_ = false;
  std::memcpy(headerOf(posted_), &header, sizeof header);
  at(posted_) = message;
  (message.memory ? link_.moved().sent_in_place : link_.moved().sent_through_slots) += message.bytes;
  ++unsent_;
  link_.send(channel_, posted_++);
}

void VerbsSender::sent(uint64_t sequence, uint16_t path) {
  at(sequence).path = path;
  --unsent_;
}

bool VerbsSender::takeCredit(uint64_t credit) {
  if (credit > posted_) return false;
  for (; credited_ < credit; ++credited_) {
    const Sent& message = at(credited_);
    if (message.path == kNoPath) return false;  // it was never sent
    link_.messageCredited(message.path, message.bytes);
  }
  return true;
}

bool VerbsSender::pathGone(uint16_t path, const ChannelState& theirs) {
  if (!takeCredit(theirs.released)) return false;
  if (theirs.hasAnyFrom(posted_)) return false;
  for (uint64_t sequence = credited_; sequence < posted_; ++sequence) {
    Sent& message = at(sequence);
    if (message.path != path || theirs.has(sequence)) continue;
    message.path = kNoPath;
    ++unsent_;
    link_.send(channel_, sequence);
  }
  return true;
}

VerbsReceiver::VerbsReceiver(VerbsLink& link, uint32_t channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), state_(link.shape().slots) {}

const std::byte* VerbsReceiver::headerOf(uint64_t sequence) const {
  return slots_ + sequence % state_.size() * slotStride(link_.shape()) + kSlotHeaderOffset;
}

const Message* VerbsReceiver::tryPeek() {
  const Slot& slot = state_[released_ % state_.size()];
  if (!slot.full) {
    if (link_.departed() && released_ >= link_.lastMessage(channel_)) link_.failDeparted(channel_);
    return nullptr;
  }
  message_ = {headerOf(released_) + sizeof(SlotHeader), slot.bytes, slot.tag};
  return &message_;
}

void VerbsReceiver::release() {
  Slot& slot = state_[released_ % state_.size()];
  HORING_CHECK(slot.full);
  slot.full = false;
  ++released_;
  if (slot.is_lent) awaited_ = released_;
  link_.moved().received_through_slots += slot.bytes;
  link_.noteRelease();
}

bool VerbsReceiver::arrived(uint64_t sequence, uint32_t bytes) {
  if (sequence - released_ >= state_.size()) return false;
  Slot& slot = state_[sequence % state_.size()];
  if (slot.full) return false;
  SlotHeader header;
  std::memcpy(&header, headerOf(sequence), sizeof header);
  slot = {.full = true, .is_lent = (header.flags & kFromCaller) != 0, .bytes = bytes, .tag = header.tag};
  return true;
}

ChannelState VerbsReceiver::state() const {
  ChannelState state{.released = released_, .received = {}};
  for (uint64_t bit = 0; bit < state_.size(); ++bit)
    if (state_[(released_ + bit) % state_.size()].full) state.received[bit / 64] |= uint64_t{1} << bit % 64;
  return state;
}

bool VerbsReceiver::settle() {
  return credit_sent_ >= awaited_ || link_.departed() || link_.returnCredit(channel_);
}

// To a peer that has left no credit is owed.
bool VerbsReceiver::flushed() const {
  return credit_sent_ == released_ || link_.departed();
}

}  // namespace horing::verbs
