#include "transport/slots/slot_queue.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace horing {

namespace {

// The number of full-size slots to cut into each smaller size, within `room`.
std::array<uint32_t, SlotQueue::kSizes> sharesOf(const LinkShape& shape) {
  const uint32_t spare = std::max(shape.room, shape.slots) - shape.slots;
  // With fewer slots than may be in use, a slot would be rewritten while in use.
  const uint32_t least_halves = (shape.slots + 1) / 2, least_quarters = (shape.slots + 3) / 4;
  if (spare < least_halves + least_quarters) return {shape.slots, 0, 0};
  // Most traffic through slots is small messages, or streams that use few slots.
  const uint32_t halves = std::max(spare / 4, least_halves);
  return {shape.slots, halves, spare - halves};
}

// The queue without memory.
SlotQueue shapeOf(const LinkShape& shape) {
  SlotQueue queue;
  queue.count = shape.slots;
  const auto shares = sharesOf(shape);
  size_t begin = 0;
  for (size_t size = 0; size < SlotQueue::kSizes; ++size) {
    SlotRow& row = queue.rows[size];
    row = {begin, queue.all, shares[size] << size, (shape.slot_bytes >> size) / 64 * 64};
    queue.all += row.count;
    begin = row.end();
  }
  return queue;
}

}  // namespace

uint64_t slotQueueBytes(const LinkShape& shape) {
  return sizeof(SlotQueueHeader) + shapeOf(shape).rows.back().end();
}

uint64_t slotQueuePitch(const LinkShape& shape) {
  constexpr uint64_t kAlignment = alignof(SlotQueueHeader);
  return (slotQueueBytes(shape) + kAlignment - 1) / kAlignment * kAlignment;
}

void formatSlotQueue(std::byte* memory, const LinkShape& shape, uint64_t first) {
  HORING_CHECK_EQ(reinterpret_cast<uintptr_t>(memory) % alignof(SlotQueueHeader), 0u);
  auto* header = new (memory) SlotQueueHeader;
  // relaxed: handing the memory to the sending side publishes it.
  header->tail.store(first, std::memory_order_relaxed);
  const SlotQueue queue = viewSlotQueue(memory, shape);
  for (uint32_t number = 0; number < queue.all; ++number)
    new (queue.slot(number)) SlotHeader{.sequence = first};
}

SlotQueue viewSlotQueue(std::byte* memory, const LinkShape& shape) {
  SlotQueue queue = shapeOf(shape);
  queue.header = reinterpret_cast<SlotQueueHeader*>(memory);
  queue.slots = memory + sizeof(SlotQueueHeader);
  return queue;
}

}  // namespace horing
