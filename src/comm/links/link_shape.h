#pragma once
// How many slots the links of a communicator have, and how large they are.
#include <cstdint>
#include <string_view>

#include "base/config.h"
#include "transport/transport.h"

namespace horing {

// Whether the transport with this name joins ranks of different nodes: its messages take a network, and its connections use callers' slots
// (transport/callers_slots.h). The others have slots in memory that both ranks access.
bool isBetweenNodes(std::string_view transport);

// Channels, slots and slot size of a link over this transport in a communicator of `ranks` ranks; between nodes there are slotsBetween().
// In shared memory a link reserves room for more slots than are used at first, within kRoomBytes for the links to all other ranks.
LinkShape linkShapeOf(const Config& config, std::string_view transport, int ranks);
inline constexpr uint64_t kRoomBytes = uint64_t{8} << 20;

// The same for the links of messages.
LinkShape messageShapeOf(LinkShape shape);

// What a communicator takes of HORING_SHM_DIR on a node if all its ranks are processes there, and each has links to all others.
struct NodeShmBytes {
  int ranks = 0;
  uint64_t collectives = 0;
  uint64_t messages = 0;  // if all ranks exchange messages, too
};
NodeShmBytes nodeShmBytes(const Config& config, int ranks);

}  // namespace horing
