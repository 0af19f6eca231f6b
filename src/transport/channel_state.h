#pragma once
// What one end of a channel has of the messages that were sent to it, for transports that send again what was lost.
#include <array>
#include <cstdint>
#include <type_traits>

#include "transport/transport.h"

namespace horing {

// Crosses the wire as it is.
struct ChannelState {
  uint64_t released;                      // all before this number have been used
  std::array<uint64_t, 2> received;       // bit i: number released + i is there, complete
  static constexpr uint64_t kBits = 128;  // as many as there can be slots
  bool has(uint64_t sequence) const {
    const uint64_t bit = sequence - released;
    return bit < kBits && (received[bit / 64] >> bit % 64 & 1) != 0;
  }
  // Whether `end` or a later one is said to be there: nobody can have what was never sent.
  bool hasAnyFrom(uint64_t end) const {
    for (uint64_t bit = 0; bit < kBits; ++bit)
      if (has(released + bit) && released + bit >= end) return true;
    return false;
  }
};
static_assert(sizeof(ChannelState) == 24 && std::is_trivially_copyable_v<ChannelState>);
static_assert(ChannelState::kBits == kMaxSlots);

}  // namespace horing
