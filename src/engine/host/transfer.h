#pragma once
// A message between two ranks, as one of them sees it.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "base/types.h"
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
  // By what the two ends of a message meet: the order of their calls, a tag (message_matcher.h), or nothing but the peer.
  enum class Meeting : uint8_t { kOrder, kTag, kOneSided };

  struct Send {
    static constexpr Direction kDirection = Direction::kSend;
    static constexpr Meeting kMeeting = Meeting::kOrder;
    const std::byte* input = nullptr;
  };
  struct Receive {
    static constexpr Direction kDirection = Direction::kReceive;
    static constexpr Meeting kMeeting = Meeting::kOrder;
    std::byte* output = nullptr;
  };
  struct TaggedSend {
    static constexpr Direction kDirection = Direction::kSend;
    static constexpr Meeting kMeeting = Meeting::kTag;
    const std::byte* input = nullptr;
    uint64_t tag = 0;
  };
  struct TaggedReceive {
    static constexpr Direction kDirection = Direction::kReceive;
    static constexpr Meeting kMeeting = Meeting::kTag;
    std::byte* output = nullptr;
    uint64_t tag = 0;
    int* source = nullptr;  // where to write the sender's rank; null: nowhere
  };
  // A tagged message that came before its receive. Only the inbox makes these.
  struct Kept {
    static constexpr Direction kDirection = Direction::kReceive;
    static constexpr Meeting kMeeting = Meeting::kTag;
    std::byte* output = nullptr;
    uint64_t number = 0;  // in the inbox
  };
  // Signals the peer when its data are there, unless its signal is kNoSignal: a put whose data are not all at hand is cut, and the last part
  // signals.
  static constexpr uint32_t kNoSignal = UINT32_MAX;
  struct Put {
    static constexpr Direction kDirection = Direction::kSend;
    static constexpr Meeting kMeeting = Meeting::kOneSided;
    const std::byte* input = nullptr;
    PutTarget target;
    uint32_t signal = 0;  // index of its signal, each of which is counted separately
  };
  // A put of the peer. Only its header makes these.
  struct ArrivingPut {
    static constexpr Direction kDirection = Direction::kReceive;
    static constexpr Meeting kMeeting = Meeting::kOneSided;
    std::byte* output = nullptr;
    uint64_t window = 0;
    uint32_t signal = 0;
  };
  // Waits for so many signals of the peer.
  struct SignalWait {
    static constexpr Direction kDirection = Direction::kReceive;
    static constexpr Meeting kMeeting = Meeting::kOneSided;
    uint64_t signals = 1;
    uint32_t signal = 0;
  };
  using Kind = std::variant<Send, Receive, TaggedSend, TaggedReceive, Kept, Put, ArrivingPut, SignalWait>;

  Kind kind;
  int peer = 0;         // rank; may be the own rank, or kAnyRank for a tagged receive
  uint32_t record = 0;  // handle of its record (base/message_recorder.h); 0: none
  size_t bytes = 0;
  bool on_gpu = false;               // in memory that only a GPU can access
  DataType type = DataType::kUint8;  // of the call, for records
  // For such memory, which moves in place or by this copier; must outlive the transfer. Null: host memory.
  MemoryCopier* copier = nullptr;
  uint64_t ticket = 0;  // of its call (PointToPoint::join); 0: none

  Direction direction() const {
    return std::visit([](const auto& each) { return each.kDirection; }, kind);
  }
  Meeting meeting() const {
    return std::visit([](const auto& each) { return each.kMeeting; }, kind);
  }
  bool isOneSided() const { return meeting() == Meeting::kOneSided; }
  // Whether it progresses beside other operations, and completes by itself.
  bool goesBeside() const { return meeting() != Meeting::kOrder; }
  // The data that it sends; null: it receives.
  const std::byte* input() const {
    return std::visit(
        [](const auto& each) -> const std::byte* {
          if constexpr (requires { each.input; }) return each.input;
          return nullptr;
        },
        kind);
  }
  // Where it receives data; null: it sends, or has none.
  std::byte* output() const {
    return std::visit(
        [](const auto& each) -> std::byte* {
          if constexpr (requires { each.output; }) return each.output;
          return nullptr;
        },
        kind);
  }
  const std::byte* memory() const { return direction() == Direction::kSend ? input() : output(); }
};
static_assert(sizeof(Transfer) <= 80, "each message copies it");

}  // namespace horing
