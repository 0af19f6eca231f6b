#include "transport/slots/slot_queue.h"

#include <new>

#include "base/check.h"

namespace horing {

namespace {

uint32_t roomOf(const LinkShape& shape) {
  return shape.room == 0 ? shape.slots : shape.room;
}

}  // namespace

uint64_t slotQueueBytes(const LinkShape& shape) {
  return sizeof(SlotQueueHeader) +
         static_cast<uint64_t>(roomOf(shape)) * (sizeof(SlotHeader) + shape.slot_bytes);
}

uint64_t slotQueuePitch(const LinkShape& shape) {
  constexpr uint64_t kAlignment = alignof(SlotQueueHeader);
  return (slotQueueBytes(shape) + kAlignment - 1) / kAlignment * kAlignment;
}

void formatSlotQueue(std::byte* memory, const LinkShape& shape, uint64_t first) {
  HORING_CHECK_EQ(reinterpret_cast<uintptr_t>(memory) % alignof(SlotQueueHeader), 0u);
  auto* header = new (memory) SlotQueueHeader;
  // relaxed: whoever hands the memory to the sending side publishes it.
  header->tail.store(first, std::memory_order_relaxed);
  const SlotQueue queue = viewSlotQueue(memory, shape);
  for (uint32_t number = 0; number < queue.room; ++number)
    new (queue.slot(number)) SlotHeader{.sequence = first};
}

SlotQueue viewSlotQueue(std::byte* memory, const LinkShape& shape) {
  return SlotQueue{reinterpret_cast<SlotQueueHeader*>(memory), memory + sizeof(SlotQueueHeader), shape.slots,
                   roomOf(shape), shape.slot_bytes};
}

}  // namespace horing
