#include "comm/links/link_shape.h"

#include <algorithm>

#include "comm/links/connector.h"
#include "engine/host/plan.h"

namespace horing {

LinkShape linkShapeOf(const Config& config, std::string_view transport, int ranks) {
  LinkShape shape;
  shape.channels = kLinkChannels;
  shape.slots = static_cast<uint32_t>(config.slots);
  shape.slot_bytes = static_cast<uint32_t>((config.slice_bytes + 63) / 64 * 64);
  if (transport != "socket" && transport != "verbs") {
    const uint64_t row_bytes =
        uint64_t{kLinkChannels} * shape.slot_bytes * static_cast<uint64_t>(std::max(ranks - 1, 1));
    shape.room =
        std::max(shape.slots, static_cast<uint32_t>(std::min<uint64_t>(kRoomBytes / row_bytes, kMaxSlots)));
    return shape;
  }
  // One slot of every connection: channels, two directions, peers.
  constexpr uint64_t kChannels = kLinkChannels + kPointToPointChannels;
  const uint64_t row_bytes = 2 * kChannels * shape.slot_bytes * static_cast<uint64_t>(std::max(ranks - 1, 1));
  const auto wanted = static_cast<uint32_t>(config.socket_slots);
  const auto fitting = static_cast<uint32_t>(std::min<uint64_t>(kSocketSlotsBytes / row_bytes, wanted));
  shape.slots = std::max(fitting, std::min(shape.slots, wanted));
  return shape;
}

}  // namespace horing
