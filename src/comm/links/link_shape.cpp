#include "comm/links/link_shape.h"

#include <algorithm>

#include "schedule/link_slots.h"
#include "transport/shm/shm_transport.h"

namespace horing {

bool isBetweenNodes(std::string_view transport) {
  return transport == "socket" || transport == "verbs";
}

LinkShape linkShapeOf(const Config& config, std::string_view transport, int ranks) {
  LinkShape shape;
  shape.channels = kLinkChannels;
  shape.slots = static_cast<uint32_t>(config.slots);
  shape.slot_bytes = static_cast<uint32_t>((config.slice_bytes + 63) / 64 * 64);
  if (!isBetweenNodes(transport)) {
    const uint64_t row_bytes =
        uint64_t{kLinkChannels} * shape.slot_bytes * static_cast<uint64_t>(std::max(ranks - 1, 1));
    shape.room =
        std::max(shape.slots, static_cast<uint32_t>(std::min<uint64_t>(kRoomBytes / row_bytes, kMaxSlots)));
    return shape;
  }
  shape.slots =
      static_cast<uint32_t>(slotsBetween(static_cast<int32_t>(config.socket_slots),
                                         static_cast<int32_t>(config.slots), shape.slot_bytes, ranks));
  return shape;
}

LinkShape messageShapeOf(LinkShape shape) {
  shape.channels = kPointToPointChannels;
  shape.room = 0;
  return shape;
}

NodeShmBytes nodeShmBytes(const Config& config, int ranks) {
  const LinkShape shape = linkShapeOf(config, "shm", ranks);
  const auto all = static_cast<uint64_t>(ranks), ends = all * (all - 1);
  return {.ranks = ranks,
          .collectives = all * shmRankBytes() + ends * shmLinkBytes(shape),
          .messages = ends * shmLinkBytes(messageShapeOf(shape))};
}

}  // namespace horing
