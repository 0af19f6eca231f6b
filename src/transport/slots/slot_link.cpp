#include "transport/slots/slot_link.h"

#include "base/check.h"

namespace horing {

void formatSlotRow(std::byte* memory, const LinkShape& shape) {
  for (int lane = 0; lane < shape.lanes; ++lane) {
    formatSlotQueue(memory + slotQueuePitch(shape) * static_cast<uint64_t>(lane), shape);
  }
}

void SlotLink::establish(const SlotLinkParts& parts) {
  HORING_CHECK(senders_.empty());
  state_.watch(parts.peer_departed);
  receivers_.reserve(static_cast<size_t>(shape_.lanes));
  senders_.reserve(static_cast<size_t>(shape_.lanes));
  for (int lane = 0; lane < shape_.lanes; ++lane) {
    const uint64_t offset = slotQueuePitch(shape_) * static_cast<uint64_t>(lane);
    receivers_.emplace_back(viewSlotQueue(parts.inbound + offset, shape_), parts.peer_bell, &state_, lane);
    senders_.emplace_back(viewSlotQueue(parts.outbound + offset, shape_), parts.peer_bell, &state_, lane);
  }
}

}  // namespace horing
