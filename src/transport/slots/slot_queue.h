#pragma once
// The memory of one connection: slots and a counter, in memory that both ends can access.
//
//   SlotQueueHeader | SlotHeader data | SlotHeader data | ...      (`slots` of slot_bytes of data each, then smaller ones)
//
// The receiving side allocates and formats it. The first message is in slot 0; each message names the slot of the next header. If the data
// of a message does not fit the slot of its header, it is in another slot. Messages are numbered from 1, in 64 bits, which never wrap;
// `tail` messages are released. At most `slots` messages are in flight. The peer may be broken or malicious, so whatever it writes is
// checked when read.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace horing {

// On a separate cache line, and 128 bytes long since CPUs fetch lines in pairs.
struct SlotQueueHeader {
  // Messages released. Written by the receiver only. Release in SlotReceiver::release() pairs with acquire in
  // SlotSender::look().
  alignas(128) std::atomic<uint64_t> tail;
};
static_assert(sizeof(SlotQueueHeader) == 128 && alignof(SlotQueueHeader) == 128);

// Messages up to this size are inlined in their header.
inline constexpr uint32_t kInlineBytes = 40;
// Flags of SlotHeader::bytes: where the message is, unless behind its header.
inline constexpr uint32_t kIsInline = 1u << 31;     // in the header
inline constexpr uint32_t kIsElsewhere = 1u << 30;  // in slot SlotHeader::data

// One line, written by the sender only, so that a small message needs only this line. Atomic (relaxed) only so that the receiver reads each
// field exactly once: the checked value is the used value. Ordered by `sequence`.
struct SlotHeader {
  // The number of the message in this slot, counted from 1; a lower number: not arrived yet. Release in SlotSender::post() pairs with
  // acquire in SlotReceiver::look().
  alignas(64) std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> tag;
  std::atomic<uint32_t> bytes;  // and a flag
  std::atomic<uint16_t> next;   // the slot of the next message's header
  std::atomic<uint16_t> data;   // the data's slot if kIsElsewhere
  std::byte small[kInlineBytes];
};
static_assert(sizeof(SlotHeader) == 64 && offsetof(SlotHeader, bytes) == 16 &&
              offsetof(SlotHeader, small) == 24);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint16_t>::is_always_lock_free);

// Contiguous slots of one size.
struct SlotRow {
  size_t begin = 0;    // offset from the first SlotHeader
  uint32_t first = 0;  // number of the first slot
  uint32_t count = 0;
  uint32_t bytes = 0;  // of data per slot

  size_t pitch() const { return bytes + sizeof(SlotHeader); }
  size_t end() const { return begin + count * pitch(); }
};

// A view of a formatted queue; the memory must outlive it. A value.
struct SlotQueue {
  // Sizes: slot_bytes, a half and a quarter. Smaller slots are made within LinkShape::room: none, or at least as many as may be in use.
  static constexpr size_t kSizes = 3;

  SlotQueueHeader* header = nullptr;
  std::byte* slots = nullptr;  // the first SlotHeader
  std::array<SlotRow, kSizes> rows;
  uint32_t count = 0;  // messages that may be in use, and the number of largest slots
  uint32_t all = 0;    // all slots

  const SlotRow& rowOf(uint32_t number) const {
    return number < rows[1].first ? rows[0] : number < rows[2].first ? rows[1] : rows[2];
  }
  std::byte* slot(const SlotRow& row, uint32_t number) const {
    return slots + row.begin + (number - row.first) * row.pitch();
  }
  std::byte* slot(uint32_t number) const { return slot(rowOf(number), number); }
  // The smallest slot size that fits the message, as an index into `rows`.
  size_t sizeFor(uint32_t data_bytes) const {
    size_t size = kSizes - 1;
    while (size > 0 && (data_bytes > rows[size].bytes || rows[size].count == 0)) --size;
    return size;
  }
};

// Bytes of one queue: a multiple of 64.
uint64_t slotQueueBytes(const LinkShape& shape);
// The distance of adjacent queues: slotQueueBytes() rounded up to their alignment.
uint64_t slotQueuePitch(const LinkShape& shape);

// Makes an empty queue in memory aligned to 128 bytes; `first`: the start of its counters. Called by the receiving side, before the sending
// side has the memory.
void formatSlotQueue(std::byte* memory, const LinkShape& shape, uint64_t first = 0);
SlotQueue viewSlotQueue(std::byte* memory, const LinkShape& shape);

}  // namespace horing
