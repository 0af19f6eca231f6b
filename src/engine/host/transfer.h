#pragma once
// A message between two ranks, as one of them sees it.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/host/memory_copier.h"

namespace horing {

// Where the data of a put go: into a window of the peer.
struct PutTarget {
  uint64_t window = 0;  // number; 0: none, for a signal alone, which has no data
  uint64_t offset = 0;  // bytes
};

// Buffers belong to the caller and must stay until the message is complete.
struct Transfer {
  enum class Direction : uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  int peer = 0;                      // rank; may be the own rank, or kAnyRank for a tagged receive
  const std::byte* input = nullptr;  // kSend
  std::byte* output = nullptr;       // kReceive
  size_t bytes = 0;
  bool on_gpu = false;  // in memory that only a GPU can access
  // For such memory, which moves in place or by this copier; must outlive the transfer. Null: host memory.
  MemoryCopier* copier = nullptr;
  // Tagged sends and receives match by it (message_matcher.h); untagged ones by the order of their calls.
  std::optional<uint64_t> tag;
  int* source = nullptr;  // where a tagged receive writes the sender's rank; null: nowhere
  // One-sided. kSend: a put, which signals the peer when its data are there. kReceive: a put that arrives.
  std::optional<PutTarget> target;
  uint64_t signals = 0;  // kReceive, without data: waits for so many signals of the peer
  uint32_t signal = 0;   // one-sided: the index of its signal, each of which is counted separately
  uint64_t ticket = 0;   // of its call (PointToPoint::join); 0: none
  uint64_t kept = 0;     // number of a message that the inbox puts aside; 0: none

  bool isOneSided() const { return target || signals > 0; }
  // Whether it progresses beside other operations, and completes by itself.
  bool goesBeside() const { return tag || isOneSided(); }
};

}  // namespace horing
