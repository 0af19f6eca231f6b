#include "transport/verbs/connection.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/verbs/link.h"

namespace horing::verbs {

VerbsSender::VerbsSender(VerbsLink& link, uint32_t channel, const QueueShape& shape, std::byte* slots)
    : link_(link), channel_(channel), shape_(shape), slots_(slots), sent_(shape.slots) {}

std::byte* VerbsSender::headerOf(uint64_t sequence) const {
  return slots_ + sent_.slotOf(sequence) * shape_.stride() + kSlotHeaderOffset;
}

std::byte* VerbsSender::tryAcquire(uint32_t) {
  if (sent_.full() || (needs_their_slots_ && !their_slots_)) {
    if (link_.departed()) link_.failDeparted(channel_);
    return nullptr;
  }
  acquired_ = Acquired::kSlot;
  if (callers_slots_) return callers_slots_ + shape_.dataOffset(sent_.posted());
  return headerOf(sent_.posted()) + sizeof(SlotHeader);
}

bool VerbsSender::useSlots(std::span<std::byte> memory, MemoryOf) {
  if (sent_.posted() > 0) return false;
  needs_their_slots_ = true;
  const bool fits = memory.size() == shape_.dataBytes();
  if (fits && link_.lentMemory(memory.data(), memory.size())) callers_slots_ = memory.data();
  return callers_slots_ != nullptr;
}

// Earlier messages are in the link's slots.
void VerbsSender::takeSlots(const Message& told) {
  SlotsAnnouncement announcement;
  if (their_slots_ || told.bytes != sizeof announcement)
    return link_.broken("slots that it has reported before");
  std::memcpy(&announcement, told.data, sizeof announcement);
  their_slots_ = {.address = announcement.address, .keys = announcement.keys};
  link_.announcements(channel_).release();
}

std::byte* VerbsSender::tryAcquireLanding() {
  std::byte* const slot = tryAcquire(kWholeSlot);
  if (!slot) return nullptr;
  // A message that is copied anyway does not wait for the announcement.
  const bool has_landing = !link_.lendsMemory() || link_.announcements(channel_).tryPeek();
  acquired_ = has_landing ? Acquired::kLanding : Acquired::kNothing;
  return has_landing ? slot : nullptr;
}

void VerbsSender::post(uint32_t bytes, Tag tag) {
  const std::byte* const memory =
      callers_slots_ ? callers_slots_ + shape_.dataOffset(sent_.posted()) : nullptr;
  enqueue({.memory = memory, .bytes = bytes, .target = {}}, tag, 0);
}

bool VerbsSender::sendsFrom(const std::byte* memory, uint32_t bytes) const {
  return link_.lentMemory(memory, bytes) != nullptr;
}

void VerbsSender::postFrom(const std::byte* memory, uint32_t bytes, Tag tag) {
  lent_before_ = sent_.posted() + 1;
  enqueue({.memory = memory, .bytes = bytes, .target = {}}, tag, kFromCaller);
}

void VerbsSender::enqueue(Sent message, Tag tag, uint32_t flags) {
  HORING_CHECK(acquired_ != Acquired::kNothing);
  HORING_CHECK_LE(message.bytes, shape_.slot_bytes);
  const bool has_landing = std::exchange(acquired_, Acquired::kNothing) == Acquired::kLanding;
  if (has_landing) {
    message.target = nextTarget(message.bytes);
  } else if (their_slots_ && their_slots_->address != 0) {
    message.target = *their_slots_;
    message.target.address += shape_.dataOffset(sent_.posted());
  }
  flags |= (has_landing ? kHasLanding : 0) | (message.target.address ? kLanded : 0);
  const SlotHeader header{.tag = tag, .credit = 0, .flags = flags, .bytes = message.bytes};
  std::memcpy(headerOf(sent_.posted()), &header, sizeof header);
  DataMoved& moved = link_.movedBy(channel_);
  (message.memory ? moved.sent_in_place : moved.sent_through_slots) += message.bytes;
  link_.send(channel_, sent_.post(message));
}

// Reads the oldest announcement. False: none.
bool VerbsSender::readAnnouncement(LandingAnnouncement& announcement) {
  const Message* const told = link_.announcements(channel_).tryPeek();
  if (!told) return false;
  const bool is_whole = told->tag == kOfLandings && told->bytes == sizeof announcement;
  if (is_whole) std::memcpy(&announcement, told->data, sizeof announcement);
  if (is_whole && announcement.messages > landings_taken_) return true;
  link_.broken("a landing for 0 messages");
  return false;
}

void VerbsSender::takeLandings(const LandingAnnouncement& announcement, uint32_t messages) {
  landings_taken_ += messages;
  if (landings_taken_ < announcement.messages) return;
  link_.announcements(channel_).release();
  landings_taken_ = 0;
}

// A message that does not fit is unexpected by the peer: it goes into the slot, where the peer detects the error.
VerbsSender::Target VerbsSender::nextTarget(uint32_t bytes) {
  LandingAnnouncement announcement;
  if (!readAnnouncement(announcement)) {
    ++announcements_overdue_;
    return {};
  }
  const uint64_t offset = uint64_t{landings_taken_} * announcement.stride;
  takeLandings(announcement, 1);
  const bool fits = announcement.address != 0 && bytes <= announcement.stride &&
                    offset <= announcement.bytes && bytes <= announcement.bytes - offset;
  if (!fits) return {};
  return {.address = announcement.address + offset, .keys = announcement.keys};
}

void VerbsSender::announcementArrived() {
  const Message* const told = link_.announcements(channel_).tryPeek();
  if (told && told->tag == kOfSlots) takeSlots(*told);
  LandingAnnouncement announcement;
  while (announcements_overdue_ > 0 && readAnnouncement(announcement)) {
    const uint32_t late = std::min(announcements_overdue_, announcement.messages - landings_taken_);
    announcements_overdue_ -= late;
    takeLandings(announcement, late);
  }
}

void VerbsSender::sent(uint64_t sequence, uint16_t path) {
  sent_.at(sequence).way = path;
  sent_.noteSent(sequence);
}

bool VerbsSender::takeCredit(uint64_t credit) {
  const auto may_have_come = [](const Sent&) { return false; };
  return sent_.takeCredit(credit, may_have_come, [](const Sent&) {});
}

bool VerbsSender::pathGone(uint16_t path, const ChannelState& theirs) {
  return takeCredit(theirs.released) && sent_.settle(path, theirs, [&](uint64_t sequence) {
    sent_.at(sequence).way = kNoWay;
    link_.send(channel_, sequence);
  });
}

// The peer consumes an announcement when it sends its last message; this end, when that message is received and released.
VerbsReceiver::VerbsReceiver(VerbsLink& link, uint32_t channel, const QueueShape& shape, std::byte* slots)
    : link_(link),
      channel_(channel),
      shape_(shape),
      slots_(slots),
      state_(shape.slots),
      landings_(shape.slots + kMaxLandingSlots) {}

const std::byte* VerbsReceiver::headerOf(uint64_t sequence) const {
  return slots_ + sequence % state_.size() * shape_.stride() + kSlotHeaderOffset;
}

const Message* VerbsReceiver::tryPeekAhead(uint64_t ahead) {
  if (ahead >= state_.size()) return nullptr;
  const uint64_t sequence = released_ + ahead;
  const Slot& slot = state_[sequence % state_.size()];
  if (!slot.full) {
    if (link_.departed() && sequence >= link_.lastMessage(channel_)) link_.failDeparted(channel_);
    return nullptr;
  }
  if (slot.flags & kHasLanding) {
    // A sender that lends nothing does not wait for announcements, so it may be ahead of them.
    const bool is_told = landings_begin_ < landings_end_;
    if (ahead > 0 || (!(slot.flags & kLanded) && !is_told)) return nullptr;
  }
  message_ = {placeOf(sequence), slot.bytes, slot.tag};
  if (message_.data) return &message_;
  link_.broken("data in memory without a landing");
  return nullptr;
}

// Null: the message claims an invalid landing.
const std::byte* VerbsReceiver::placeOf(uint64_t sequence) const {
  const Slot& slot = state_[sequence % state_.size()];
  if (slot.flags & kHasLanding) return landingOf(slot);
  if (!(slot.flags & kLanded)) return headerOf(sequence) + sizeof(SlotHeader);
  if (!callers_slots_ || slot.bytes > shape_.slot_bytes) return nullptr;
  return callers_slots_ + shape_.dataOffset(sequence);
}

// The landing of the oldest message.
const std::byte* VerbsReceiver::landingOf(const Slot& slot) const {
  if (landings_begin_ >= landings_end_) return nullptr;
  if (!(slot.flags & kLanded)) return headerOf(released_) + sizeof(SlotHeader);
  const Landing& landing = landings_[landings_begin_ % landings_.size()];
  const uint64_t offset = uint64_t{landings_used_} * landing.stride;
  const bool fits = landing.memory && slot.bytes <= landing.stride && offset <= landing.bytes &&
                    slot.bytes <= landing.bytes - offset;
  return fits ? landing.memory + offset : nullptr;
}

// If adapters cannot register the memory, this is reported to the peer, since it waits for an announcement.
bool VerbsReceiver::useSlots(std::span<std::byte> memory, MemoryOf) {
  HORING_CHECK_EQ(landings_end_, uint64_t{0});
  if (std::exchange(told_slots_, true)) return false;
  std::byte* const slot = link_.landingSender(channel_).tryAcquire(sizeof(SlotsAnnouncement));
  HORING_CHECK(slot);  // the first announcement
  const bool fits = memory.size() == shape_.dataBytes() && released_ == 0 && !state_.front().full;
  const RegionCache::Entry* const lent = fits ? link_.lentMemory(memory.data(), memory.size()) : nullptr;
  if (lent) callers_slots_ = memory.data();
  const SlotsAnnouncement announcement{
      .address = reinterpret_cast<uintptr_t>(callers_slots_),
      .keys = lent ? link_.remoteKeys(*lent) : decltype(announcement.keys){}};
  std::memcpy(slot, &announcement, sizeof announcement);
  link_.landingSender(channel_).post(sizeof announcement, kOfSlots);
  return lent != nullptr;
}

bool VerbsReceiver::tryLand(const Landing& landing) {
  HORING_CHECK(landing.messages > 0);
  if (landings_end_ - landings_begin_ >= landings_.size()) return false;
  Sender& announcements = link_.landingSender(channel_);
  std::byte* const slot = announcements.tryAcquire(sizeof(LandingAnnouncement));
  if (!slot) return false;
  const RegionCache::Entry* const lent =
      landing.memory ? link_.lentMemory(landing.memory, landing.bytes) : nullptr;
  const LandingAnnouncement announcement{
      .address = lent ? reinterpret_cast<uintptr_t>(landing.memory) : 0,
      .bytes = landing.bytes,
      .stride = landing.stride,
      .messages = landing.messages,
      .keys = lent ? link_.remoteKeys(*lent) : decltype(announcement.keys){}};
  std::memcpy(slot, &announcement, sizeof announcement);
  Landing& told = landings_[landings_end_++ % landings_.size()];
  told = landing;
  if (!lent) told.memory = nullptr;
  announcements.post(sizeof announcement, kOfLandings);
  return true;
}

void VerbsReceiver::release() {
  Slot& slot = state_[released_ % state_.size()];
  HORING_CHECK(slot.full);
  slot.full = false;
  ++released_;
  if (slot.flags & kFromCaller) awaited_ = released_;
  DataMoved& moved = link_.movedBy(channel_);
  (slot.flags & kLanded ? moved.received_in_place : moved.received_through_slots) += slot.bytes;
  if (!(slot.flags & kHasLanding) ||
      ++landings_used_ < landings_[landings_begin_ % landings_.size()].messages)
    return link_.noteRelease();
  ++landings_begin_;
  landings_used_ = 0;
  link_.noteRelease();
}

bool VerbsReceiver::arrived(uint64_t sequence, uint32_t bytes) {
  if (sequence - released_ >= state_.size()) return false;
  Slot& slot = state_[sequence % state_.size()];
  if (slot.full) return false;
  SlotHeader header;
  std::memcpy(&header, headerOf(sequence), sizeof header);
  const uint64_t in_slot = sizeof header + (header.flags & kLanded ? 0 : uint64_t{header.bytes});
  if (bytes != in_slot || in_slot > shape_.stride() - kSlotHeaderOffset) return false;
  slot = {.full = true, .flags = header.flags, .bytes = header.bytes, .tag = header.tag};
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

// A peer that has left needs no credits.
bool VerbsReceiver::flushed() const {
  return credit_sent_ == released_ || link_.departed();
}

}  // namespace horing::verbs
