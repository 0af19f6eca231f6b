#pragma once
// The sends and receives of one group as a rank's kernel gets them: by value, as lane_call.h, and for the same reason.
//
// Between two ranks, the first send meets the first receive, and so on (engine/host/point_to_point.h). Their messages go through
// the queues that lanes have to that rank, too: what both call between the two comes in the same order at both ends.
#include "engine/cuda/lane_call.h"

namespace horing::cuda {

// In memory of this GPU.
struct ExchangeMessage {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

// The messages in one direction between this rank and a peer, in their order.
struct ExchangeFlow {
  int32_t number = 0;  // of the view's ports
  uint16_t first = 0;  // among the call's messages
  uint16_t message_count = 0;
  bool sends = false;
  uint8_t parts = 1;  // of a message at most: for so many there are ports
};
inline constexpr int32_t kMaxFlows = 64;
inline constexpr int32_t kMaxMessages = 192;

// What a kernel that gives up leaves, as Failure does.
struct ExchangeFailure {
  uint32_t claimed = 0;
  uint32_t kind = 0;  // a Failure::Kind, written after all that follows
  int32_t flow = -1;  // its number
  int32_t part = 0;
  uint64_t expected = 0;                              // bytes of the message that it waited for, ...
  uint64_t found = kNoMessage;                        // ... and of the one that came instead
  uint64_t call = 0;                                  // ExchangeCall::number
  static constexpr uint64_t kNoMessage = UINT64_MAX;  // none, or what no send sends
};

// Port pointers: [flow number * cut.parts + part].
struct ExchangeView {
  Port* const* ports = nullptr;
  uint32_t* abort = nullptr;  // see PlanView
  ExchangeFailure* failure = nullptr;
  uint64_t* runs = nullptr;      // of each block, in memory of the GPU; written by it alone
  Activity* activity = nullptr;  // of each block; null: nobody wants to know
  bool hosts_carry = true;       // some of its messages
  PartCut cut;                   // of a message, of flows that have most parts: elements are bytes
  uint64_t timeout_ns = UINT64_MAX;
};

// An *item* is a part of a flow. Items have blocks by turn; a block looks after all it has at once, so none of them waits for another.
struct ExchangeCall {
  ExchangeView view;
  int32_t flow_count = 0;
  int32_t used_parts = 1;  // of the largest message
  int32_t blocks = 1;      // of the grid
  uint64_t number = 0;     // for whoever asks which one failed
  ExchangeFlow flows[kMaxFlows];
  ExchangeMessage messages[kMaxMessages];

  constexpr int32_t items() const { return flow_count * used_parts; }
};
inline constexpr int32_t kMaxItemsOfBlock = 64;
static_assert(sizeof(ExchangeCall) <= 4096, "what every GPU takes as a kernel's parameters");

// What a slot of a message says, so that a receiver can name the difference; those of lanes are mixed bits.
struct ExchangeTag {
  static constexpr uint64_t kMark = uint64_t{0x5e4dba} << 40;
  static constexpr uint64_t kBytesMask = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t of(uint64_t message_bytes) { return kMark | (message_bytes & kBytesMask); }
  static constexpr uint64_t bytesOf(uint64_t tag) {
    return (tag & ~kBytesMask) == kMark ? tag & kBytesMask : ExchangeFailure::kNoMessage;
  }
};

}  // namespace horing::cuda
