#include "transport/slots/slot_pages.h"

#include "base/mapping.h"

namespace horing {

namespace {

uintptr_t pageOf(const std::byte* at) {
  constexpr uintptr_t kSmallestPage = 4096;
  return reinterpret_cast<uintptr_t>(at) / kSmallestPage;
}

}  // namespace

SlotPages SlotPages::ofHeaders(const SlotQueue& queue) {
  SlotPages pages;
  pages.has_all_.resize(queue.all);
  pages.absent_ = queue.all;
  return pages;
}

bool SlotPages::reachAbsent(const SlotQueue& queue, uint32_t slot, uint32_t bytes) {
  std::byte* const header = queue.slot(slot);
  const std::byte* const data = header + sizeof(SlotHeader);
  const SlotRow& row = queue.rowOf(slot);
  if (bytes <= row.bytes && pageOf(data + bytes - 1) == pageOf(data - 1)) return true;
  if (!populatePages(header, row.pitch())) return false;
  has_all_[slot] = true;
  --absent_;
  return true;
}

bool populateSlotHeaders(std::byte* memory, const LinkShape& shape) {
  if (!populatePages(memory, sizeof(SlotQueueHeader))) return false;
  const SlotQueue queue = viewSlotQueue(memory, shape);
  for (uint32_t slot = 0; slot < queue.all; ++slot)
    if (!populatePages(queue.slot(slot), sizeof(SlotHeader))) return false;
  return true;
}

}  // namespace horing
