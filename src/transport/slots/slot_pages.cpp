#include "transport/slots/slot_pages.h"

#include "base/mapping.h"

namespace horing {

SlotPages SlotPages::ofHeaders(const SlotQueue& queue) {
  SlotPages pages;
  pages.has_all_.resize(queue.all);
  pages.absent_ = queue.all;
  return pages;
}

bool SlotPages::populate(const SlotQueue& queue, uint32_t slot, std::byte* header) {
  if (!populatePages(header, queue.rowOf(slot).pitch())) return false;
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
