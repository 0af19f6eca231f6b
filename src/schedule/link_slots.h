#pragma once
// How many slots a connection between nodes has. Links reserve them and the simulator counts with them.
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace horing {

// Connections of a link in each direction: for the lanes of collectives (engine/host/plan.h), and for messages.
inline constexpr int kLinkChannels = 2;
inline constexpr int kPointToPointChannels = 1;

// For the links of a rank to all others, over TCP or RDMA.
inline constexpr uint64_t kSlotsBytesBetween = uint64_t{60} << 20;

// `wanted` slots, or as many as fit into kSlotsBytesBetween; never fewer than `least` of them.
constexpr int32_t slotsBetween(int32_t wanted, int32_t least, size_t slot_bytes, int32_t ranks) {
  constexpr uint64_t kConnections = 2 * (kLinkChannels + kPointToPointChannels);
  const uint64_t row_bytes = kConnections * slot_bytes * static_cast<uint64_t>(std::max(ranks - 1, 1));
  const auto fitting =
      static_cast<int32_t>(std::min(kSlotsBytesBetween / row_bytes, static_cast<uint64_t>(wanted)));
  return std::max(fitting, std::min(least, wanted));
}

}  // namespace horing
