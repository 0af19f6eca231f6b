#pragma once
// The memory of one connection: slots and a counter, in memory that both ends can reach.
//
//   SlotQueueHeader | SlotHeader data | SlotHeader data | ...      (`room` slots, slot_bytes of data each)
//
// The receiving side allocates and formats it. The first message lies in slot 0; each says where the next one will be. Messages are
// numbered from 1, and 64 bits do not wrap in a lifetime; `tail` of them are released. No more than `slots` are in flight. The
// other side of the memory may be broken or hostile, so whatever it writes is checked where it is read.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace horing {

// On a line of its own, and 128 bytes long since CPUs fetch lines in pairs.
struct SlotQueueHeader {
  // Messages released. Written by the receiver only. Release in SlotReceiver::release() pairs with acquire in
  // SlotSender::look().
  alignas(128) std::atomic<uint64_t> tail;
};
static_assert(sizeof(SlotQueueHeader) == 128 && alignof(SlotQueueHeader) == 128);

// Messages of so many bytes travel in their header.
inline constexpr uint32_t kInlineBytes = 40;
inline constexpr uint32_t kIsInline = 1u << 31;  // of SlotHeader::bytes

// One line, written by the sender only, so that a small message costs no other. Atomic (relaxed) only so that the receiver reads
// each field exactly once: what it checked is what it uses. Ordered by `sequence`.
struct SlotHeader {
  // Number of the message that is here, counted from 1; less: it is still to come. Release in SlotSender::post() pairs with acquire in
  // SlotReceiver::look().
  alignas(64) std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> tag;
  std::atomic<uint32_t> bytes;  // and kIsInline
  std::atomic<uint32_t> next;   // number of the slot that the next message is in
  std::byte small[kInlineBytes];
};
static_assert(sizeof(SlotHeader) == 64 && offsetof(SlotHeader, bytes) == 16 &&
              offsetof(SlotHeader, small) == 24);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// A view of a formatted queue; the memory must outlive it. A value.
struct SlotQueue {
  SlotQueueHeader* header = nullptr;
  std::byte* slots = nullptr;  // the first SlotHeader
  uint32_t count = 0;          // that may be in use at a time
  uint32_t room = 0;           // that there are
  uint32_t slot_bytes = 0;

  std::byte* slot(uint32_t number) const {
    return slots + static_cast<size_t>(number) * (slot_bytes + sizeof(SlotHeader));
  }
};

// Bytes of one queue: a multiple of 64.
uint64_t slotQueueBytes(const LinkShape& shape);
// Bytes between queues that lie one after the other: slotQueueBytes() rounded up to their alignment.
uint64_t slotQueuePitch(const LinkShape& shape);

// Makes an empty queue in memory aligned to 128 bytes; `first` is where its counters start. By the receiving
// side, before the sending side knows of the memory.
void formatSlotQueue(std::byte* memory, const LinkShape& shape, uint64_t first = 0);
SlotQueue viewSlotQueue(std::byte* memory, const LinkShape& shape);

}  // namespace horing
