#pragma once
// The memory of one connection: two counters and K slots, in memory that both ends can reach.
//
//   SlotQueueHeader | SlotHeader data | SlotHeader data | ...      (K slots, slot_bytes of data each)
//
// The receiving side allocates and formats it. Message number n (from 0) lies in slot n % K. `head` counts
// messages posted, `tail` messages released; both only grow, and 64 bits do not wrap in a lifetime. head -
// tail messages are in flight, never more than K. The other side of the memory may be broken or hostile, so
// whatever it writes is checked where it is read.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace horing {

// Two counters on lines of their own, 128 bytes apart since CPUs fetch lines in pairs.
struct SlotQueueHeader {
  // Written by the sender only. Release in SlotSender::post() pairs with acquire in SlotReceiver::look().
  alignas(128) std::atomic<uint64_t> head;
  // Written by the receiver only. Release in SlotReceiver::release() pairs with acquire in
  // SlotSender::look().
  alignas(128) std::atomic<uint64_t> tail;
};
static_assert(sizeof(SlotQueueHeader) == 256 && alignof(SlotQueueHeader) == 128);
static_assert(offsetof(SlotQueueHeader, tail) == 128);

// Written by the sender only, before it publishes `head`. Atomic (relaxed) only so that the receiver reads
// each field exactly once: what it checked is what it uses. Ordered by `head`.
struct SlotHeader {
  alignas(64) std::atomic<uint64_t> tag;
  std::atomic<uint32_t> bytes;
  std::atomic<uint32_t> next;  // number of the slot that the next message is in
};
static_assert(sizeof(SlotHeader) == 64 && offsetof(SlotHeader, bytes) == 8 &&
              offsetof(SlotHeader, next) == 12);
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
