#include "transport/slots/slot_link.h"

#include "base/check.h"

namespace horing {

void formatSlotRow(std::byte* memory, const LinkShape& shape) {
  for (int channel = 0; channel < shape.channels; ++channel) {
    formatSlotQueue(memory + slotQueuePitch(shape) * static_cast<uint64_t>(channel), shape);
  }
}

bool populateSlotRowHeaders(std::byte* memory, const LinkShape& shape) {
  for (int channel = 0; channel < shape.channels; ++channel)
    if (!populateSlotHeaders(memory + slotQueuePitch(shape) * static_cast<uint64_t>(channel), shape))
      return false;
  return true;
}

void SlotLink::establish(const SlotLinkParts& parts) {
  HORING_CHECK(senders_.empty());
  state_.watch(parts.peer_departed);
  receivers_.reserve(static_cast<size_t>(shape_.channels));
  senders_.reserve(static_cast<size_t>(shape_.channels));
  for (int channel = 0; channel < shape_.channels; ++channel) {
    const uint64_t offset = slotQueuePitch(shape_) * static_cast<uint64_t>(channel);
    receivers_.emplace_back(viewSlotQueue(parts.inbound + offset, shape_), parts.peer_bell, &state_, channel);
    const SlotQueue outbound = viewSlotQueue(parts.outbound + offset, shape_);
    senders_.emplace_back(outbound, parts.peer_bell, &state_, channel, 0,
                          parts.has_holes ? SlotPages::ofHeaders(outbound) : SlotPages());
  }
}

}  // namespace horing
