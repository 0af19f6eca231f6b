#pragma once
// The acknowledgement state of one end of a channel, for transports that retransmit.
#include <array>
#include <cstdint>
#include <type_traits>

#include "transport/transport.h"

namespace horing {

// The wire format.
struct ChannelState {
  uint64_t released;                      // all messages before this number are released
  std::array<uint64_t, 2> received;       // bit i: message released + i is received completely
  static constexpr uint64_t kBits = 128;  // the maximum number of slots
  bool has(uint64_t sequence) const {
    const uint64_t bit = sequence - released;
    return bit < kBits && (received[bit / 64] >> bit % 64 & 1) != 0;
  }
  // Whether it claims message `end` or a later one, which was never sent.
  bool hasAnyFrom(uint64_t end) const {
    for (uint64_t bit = 0; bit < kBits; ++bit)
      if (has(released + bit) && released + bit >= end) return true;
    return false;
  }
};
static_assert(sizeof(ChannelState) == 24 && std::is_trivially_copyable_v<ChannelState>);
static_assert(ChannelState::kBits == kMaxSlots);

}  // namespace horing
