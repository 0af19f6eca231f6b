#include "transport/socket/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/socket/link.h"

namespace horing::tcp {

SocketSender::SocketSender(SocketLink& link, int channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), sent_(link.shape().slots) {}

std::byte* SocketSender::tryAcquire(uint32_t) {
  if (sent_.full()) {
    if (link_.departed()) link_.failDeparted(channel_);
    return nullptr;
  }
  acquired_ = Acquired::kSlot;
  return slotOf(sent_.posted());
}

std::byte* SocketSender::tryAcquireLanding() {
  std::byte* const slot = tryAcquire(kWholeSlot);
  if (slot) acquired_ = Acquired::kLanding;
  return slot;
}

bool SocketSender::sendsFrom(const std::byte* memory, uint32_t bytes) const {
  return link_.lentMemory().holds(memory, bytes);
}

bool SocketSender::useSlots(std::span<std::byte> memory, MemoryOf of) {
  if (sent_.posted() > 0 || of != MemoryOf::kHost || memory.size() != link_.slotsBytes()) return false;
  slots_ = memory.data();
  has_own_slots_ = false;
  return true;
}

std::byte* SocketSender::slotOf(uint64_t sequence) const {
  return slots_ + sent_.slotOf(sequence) * link_.shape().slot_bytes;
}

const std::byte* SocketSender::payloadOf(uint64_t sequence) const {
  const Sent& message = sent_.at(sequence);
  return message.memory ? message.memory : slotOf(sequence);
}

FrameHeader SocketSender::headerOf(uint64_t sequence) const {
  const Sent& message = sent_.at(sequence);
  return {.bytes = message.bytes,
          .channel = static_cast<uint16_t>(channel_),
          .kind = FrameKind::kData,
          .tag = message.tag,
          .sequence = sequence,
          .credit = 0,
          .landing = message.landing};
}

void SocketSender::post(uint32_t bytes, Tag tag) {
  link_.moved().sent_through_slots += bytes;
  enqueue({.tag = tag, .bytes = bytes});
}

void SocketSender::postFrom(const std::byte* memory, uint32_t bytes, Tag tag) {
  link_.moved().sent_in_place += bytes;
  lent_before_ = sent_.posted() + 1;
  enqueue({.tag = tag, .memory = memory, .bytes = bytes});
}

void SocketSender::enqueue(Sent message) {
  HORING_CHECK(acquired_ != Acquired::kNothing);
  HORING_CHECK_LE(message.bytes, link_.shape().slot_bytes);
  if (std::exchange(acquired_, Acquired::kNothing) == Acquired::kLanding) message.landing = ++landings_;
  const size_t stream = link_.chooseStream(message.bytes);
  message.way = static_cast<uint16_t>(stream);
  const uint64_t sequence = sent_.post(message);
  link_.sendMessage(stream, headerOf(sequence), payloadOf(sequence));
}

bool SocketSender::takeCredit(uint64_t credit) {
  // While its stream is broken, another one may carry the acknowledgement.
  const auto may_have_come = [this](const Sent& message) { return !link_.isOpen(message.way); };
  return sent_.takeCredit(credit, may_have_come,
                          [this](const Sent& message) { link_.messageCredited(message.way, message.bytes); });
}

bool SocketSender::streamBegan(size_t stream, const ChannelState& theirs) {
  return takeCredit(theirs.released) && sent_.settle(stream, theirs, [&](uint64_t sequence) {
    link_.queueMessage(stream, headerOf(sequence), payloadOf(sequence));
  });
}

bool SocketSender::streamGivenUp(size_t stream, const ChannelState& theirs) {
  return takeCredit(theirs.released) && sent_.settle(stream, theirs, [&](uint64_t sequence) {
    Sent& message = sent_.at(sequence);
    link_.messageCredited(stream, message.bytes);
    message.way = static_cast<uint16_t>(link_.chooseStream(message.bytes));
    link_.sendMessage(message.way, headerOf(sequence), payloadOf(sequence));
  });
}

bool SocketSender::withdraw(const Region& region) {
  bool moved = false;
  if (sent_.released() >= lent_before_) return moved;
  for (uint64_t sequence = sent_.released(); sequence < sent_.posted(); ++sequence) {
    Sent& message = sent_.at(sequence);
    if (!message.memory || !region.contains(message.memory, message.bytes)) continue;
    std::memcpy(slotOf(sequence), message.memory, message.bytes);
    message.memory = nullptr;
    link_.payloadMoved(message.way, headerOf(sequence), slotOf(sequence));
    moved = true;
  }
  return moved;
}

SocketReceiver::SocketReceiver(SocketLink& link, int channel, std::byte* slots)
    : link_(link), channel_(channel), slots_(slots), state_(link.shape().slots), told_(link.shape().slots) {}

bool SocketReceiver::useSlots(std::span<std::byte> memory, MemoryOf of) {
  if (of != MemoryOf::kHost || memory.size() != link_.slotsBytes()) return false;
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

bool SocketReceiver::hasMessage() const {
  return state_[released_ % state_.size()].state == SlotState::kFull;
}

void SocketReceiver::release() {
  Slot& slot = state_[released_ % state_.size()];
  HORING_CHECK(slot.state == SlotState::kFull);
  slot.state = SlotState::kFree;
  landed_ -= slot.landed;
  DataMoved& moved = link_.moved();
  (slot.landed ? moved.received_in_place : moved.received_through_slots) += slot.bytes;
  ++released_;
  if (slot.landing != 0) useLanding(slot);
  link_.noteRelease();
}

// Of the message released last.
void SocketReceiver::useLanding(const Slot& slot) {
  if (slot.landing != landings_used_ + 1)
    return link_.failLanding({.bytes = slot.bytes,
                              .channel = static_cast<uint16_t>(channel_),
                              .kind = FrameKind::kData,
                              .tag = slot.tag,
                              .sequence = released_ - 1,
                              .credit = 0,
                              .landing = slot.landing});
  ++landings_used_;
  for (; told_begin_ < told_end_; ++told_begin_) {
    const Told& told = told_[told_begin_ % told_.size()];
    if (told.first + told.landing.messages > landings_used_ + 1) return;
  }
}

// Landings in slots need no memory here: they are only counted.
bool SocketReceiver::tryLand(const Landing& landing) {
  HORING_CHECK(landing.messages > 0);
  const uint64_t first = landings_told_ + 1;
  const bool is_over = landings_told_ + landing.messages <= landings_used_;
  if (landing.memory && !is_over && link_.lentMemory().holds(landing.memory, landing.bytes)) {
    if (told_end_ - told_begin_ >= told_.size()) return false;
    told_[told_end_++ % told_.size()] = {landing, first};
  }
  landings_told_ += landing.messages;
  return true;
}

std::byte* SocketReceiver::slotOf(uint64_t sequence) const {
  return slots_ + sequence % state_.size() * link_.shape().slot_bytes;
}

// Null: in the slot. A header can only select a landing that is still unused, and no other memory.
std::byte* SocketReceiver::landingOf(const FrameHeader& header) const {
  const uint64_t number = header.landing;
  if (number <= landings_used_) return nullptr;
  for (uint64_t i = told_begin_; i < told_end_; ++i) {
    const auto& [landing, first] = told_[i % told_.size()];
    if (number < first) return nullptr;
    if (number - first >= landing.messages) continue;
    const uint64_t offset = (number - first) * landing.stride;
    const bool fits = landing.memory && header.bytes <= landing.stride && offset <= landing.bytes &&
                      header.bytes <= landing.bytes - offset;
    return fits ? landing.memory + offset : nullptr;
  }
  return nullptr;
}

std::byte* SocketReceiver::reserve(const FrameHeader& header) {
  if (header.sequence - released_ >= state_.size()) return nullptr;
  Slot& slot = state_[header.sequence % state_.size()];
  if (slot.state != SlotState::kFree) return nullptr;
  std::byte* const landing = landingOf(header);
  landed_ += landing != nullptr;
  slot = {.state = SlotState::kArriving,
          .landed = landing != nullptr,
          .bytes = header.bytes,
          .landing = header.landing,
          .tag = header.tag,
          .data = landing ? landing : slotOf(header.sequence)};
  return slot.data;
}

void SocketReceiver::arrived(uint64_t sequence) {
  state_[sequence % state_.size()].state = SlotState::kFull;
}

void SocketReceiver::cancel(uint64_t sequence) {
  Slot& slot = state_[sequence % state_.size()];
  slot.state = SlotState::kFree;
  landed_ -= slot.landed;
}

bool SocketReceiver::withdraw(const Region& region) {
  bool moved = false;
  for (uint64_t i = told_begin_; i < told_end_; ++i) {
    Landing& landing = told_[i % told_.size()].landing;
    if (landing.memory && region.contains(landing.memory, landing.bytes)) landing.memory = nullptr;
  }
  for (uint64_t sequence = released_; landed_ > 0 && sequence < released_ + state_.size(); ++sequence) {
    Slot& slot = state_[sequence % state_.size()];
    if (slot.state == SlotState::kFree || !slot.landed || !region.contains(slot.data, slot.bytes)) continue;
    std::memcpy(slotOf(sequence), slot.data, slot.bytes);
    slot.data = slotOf(sequence);
    slot.landed = false;
    --landed_;
    if (slot.state == SlotState::kArriving) link_.restComesTo(channel_, sequence, slot.data);
    moved = true;
  }
  return moved;
}

ChannelState SocketReceiver::state() const {
  ChannelState state{.released = released_, .received = {}};
  for (uint64_t bit = 0; bit < state_.size(); ++bit)
    if (state_[(released_ + bit) % state_.size()].state == SlotState::kFull)
      state.received[bit / 64] |= uint64_t{1} << bit % 64;
  return state;
}

// No credit is owed to a peer that has left.
bool SocketReceiver::flushed() const {
  return credit_sent_ == released_ || link_.departed();
}

void SocketReceiver::noteCreditSent(uint64_t credit) {
  credit_sent_ = std::max(credit_sent_, credit);
}

}  // namespace horing::tcp
