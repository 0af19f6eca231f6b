#pragma once
// How many slots the links of a communicator have, and how large they are.
#include <cstdint>
#include <string_view>

#include "base/config.h"
#include "transport/transport.h"

namespace horing {

// Channels, slots and slot size of links over the transport of that name in a communicator of so many ranks: over TCP a link
// has fewer slots where a rank that is linked to all others, for collectives and for sends and receives, would take more than
// kSocketSlotsBytes for them; in memory it has room for more slots than may be in use, within kRoomBytes for those to all others.
LinkShape linkShapeOf(const Config& config, std::string_view transport, int ranks);
inline constexpr uint64_t kSocketSlotsBytes = uint64_t{60} << 20;
inline constexpr uint64_t kRoomBytes = uint64_t{8} << 20;

}  // namespace horing
