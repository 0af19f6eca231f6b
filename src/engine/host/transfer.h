#pragma once
// A message between two ranks, as one of them sees it.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/host/memory_copier.h"

namespace horing {

// Buffers belong to the caller until the message is through.
struct Transfer {
  enum class Direction : uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  int peer = 0;                      // rank; may be the own, or kAnyRank for a receive with a tag
  const std::byte* input = nullptr;  // kSend
  std::byte* output = nullptr;       // kReceive
  size_t bytes = 0;
  bool on_gpu = false;  // in memory that only a GPU reaches
  // Of such memory, which moves in place or is copied by this; must outlive the transfer. Null: memory of the host.
  MemoryCopier* copier = nullptr;
  // Sends and receives with a tag meet by it (message_matcher.h), those without one in the order of their calls.
  std::optional<uint64_t> tag;
  int* source = nullptr;  // where a receive with a tag writes the rank of the sender; null: nowhere
  uint64_t ticket = 0;    // of the call that it belongs to (PointToPoint::join); 0: none
  uint64_t kept = 0;      // of a message that the inbox puts aside: its number; 0: none
};

}  // namespace horing
