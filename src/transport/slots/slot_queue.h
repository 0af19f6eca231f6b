#pragma once
// The memory of one connection: slots and a counter, in memory that both ends can reach.
//
//   SlotQueueHeader | SlotHeader data | SlotHeader data | ...      (`slots` of slot_bytes of data each, then smaller ones)
//
// The receiving side allocates and formats it. The first message lies in slot 0; each says where the header of the next one will be.
// The data of a message that does not fit the slot where its header had to be lie in another. Messages are
// numbered from 1, and 64 bits do not wrap in a lifetime; `tail` of them are released. No more than `slots` are in flight. The
// other side of the memory may be broken or hostile, so whatever it writes is checked where it is read.
#include <array>
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
// Of SlotHeader::bytes: where the message is unless behind its header.
inline constexpr uint32_t kIsInline = 1u << 31;     // in it
inline constexpr uint32_t kIsElsewhere = 1u << 30;  // in the slot SlotHeader::data

// One line, written by the sender only, so that a small message costs no other. Atomic (relaxed) only so that the receiver reads
// each field exactly once: what it checked is what it uses. Ordered by `sequence`.
struct SlotHeader {
  // Number of the message that is here, counted from 1; less: it is still to come. Release in SlotSender::post() pairs with acquire in
  // SlotReceiver::look().
  alignas(64) std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> tag;
  std::atomic<uint32_t> bytes;  // and a flag
  std::atomic<uint16_t> next;   // number of the slot that the next message's header is in
  std::atomic<uint16_t> data;   // where kIsElsewhere
  std::byte small[kInlineBytes];
};
static_assert(sizeof(SlotHeader) == 64 && offsetof(SlotHeader, bytes) == 16 &&
              offsetof(SlotHeader, small) == 24);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free &&
              std::atomic<uint16_t>::is_always_lock_free);

// Slots of one size, that lie one after the other.
struct SlotRow {
  size_t begin = 0;    // in bytes, from the first SlotHeader of all
  uint32_t first = 0;  // number of the first slot
  uint32_t count = 0;
  uint32_t bytes = 0;  // of data in each

  size_t pitch() const { return bytes + sizeof(SlotHeader); }
  size_t end() const { return begin + count * pitch(); }
};

// A view of a formatted queue; the memory must outlive it. A value.
struct SlotQueue {
  // Of slot_bytes, of half and of a quarter of that; the smaller ones, which LinkShape::room has to pay for, are none or at least as
  // many as may be in use at a time.
  static constexpr size_t kSizes = 3;

  SlotQueueHeader* header = nullptr;
  std::byte* slots = nullptr;  // the first SlotHeader
  std::array<SlotRow, kSizes> rows;
  uint32_t count = 0;  // of messages that may be in use at a time, and of the largest slots
  uint32_t all = 0;    // slots

  const SlotRow& rowOf(uint32_t number) const {
    return number < rows[1].first ? rows[0] : number < rows[2].first ? rows[1] : rows[2];
  }
  std::byte* slot(const SlotRow& row, uint32_t number) const {
    return slots + row.begin + (number - row.first) * row.pitch();
  }
  std::byte* slot(uint32_t number) const { return slot(rowOf(number), number); }
  // The smallest size of slots that such a message fits, as a place in `rows`.
  size_t sizeFor(uint32_t data_bytes) const {
    size_t size = kSizes - 1;
    while (size > 0 && (data_bytes > rows[size].bytes || rows[size].count == 0)) --size;
    return size;
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
