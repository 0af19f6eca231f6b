#pragma once
// The sends and receives of one group as arguments of a rank's kernel: by value, for the same reason as in lane_call.h.
//
// Between two ranks, the first send matches the first receive, and so on (engine/host/point_to_point.h). Messages share the queues that
// lanes use to that rank, so both ends must order calls and messages alike.
#include "engine/cuda/lane_call.h"

namespace horing::cuda {

// In GPU memory.
struct ExchangeMessage {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

// The messages in one direction between this rank and a peer, in order.
struct ExchangeFlow {
  int32_t number = 0;  // index of the view's ports
  uint16_t first = 0;  // among the call's messages
  uint16_t message_count = 0;
  bool sends = false;
  uint8_t parts = 1;  // of a message, at most; the number of ports
};
inline constexpr int32_t kMaxFlows = 64;
inline constexpr int32_t kMaxMessages = 192;

// The failure record of a kernel that gives up, like Failure.
struct ExchangeFailure {
  uint32_t claimed = 0;
  uint32_t kind = 0;  // a Failure::Kind, written last
  int32_t flow = -1;  // its number
  int32_t part = 0;
  uint64_t expected = 0;                              // bytes of the expected message, ...
  uint64_t found = kNoMessage;                        // ... and of the message received instead
  uint64_t call = 0;                                  // ExchangeCall::number
  uint64_t timeout_ns = 0;                            // the call's
  static constexpr uint64_t kNoMessage = UINT64_MAX;  // none, or not a valid message
};

// Port pointers: [flow number * cut.parts + part].
struct ExchangeView {
  Port* const* ports = nullptr;
  uint32_t* abort = nullptr;  // see PlanView
  ExchangeFailure* failure = nullptr;
  uint64_t* runs = nullptr;      // per block, in GPU memory; written by the block only
  Activity* activity = nullptr;  // per block; null: not needed
  bool hosts_carry = true;       // proxies carry some messages
  PartCut cut;                   // of a message, in flows with the most parts; elements are bytes
  uint64_t timeout_ns = UINT64_MAX;
};

// An *item* is a part of a flow. Items are assigned to blocks in turn; a block serves all its items concurrently, so no item waits for
// another.
struct ExchangeCall {
  ExchangeView view;
  int32_t flow_count = 0;
  int32_t used_parts = 1;  // parts of the largest message
  int32_t blocks = 1;      // blocks of the grid
  uint64_t number = 0;     // identifies a failed call
  ExchangeFlow flows[kMaxFlows];
  ExchangeMessage messages[kMaxMessages];

  constexpr int32_t items() const { return flow_count * used_parts; }
};
inline constexpr int32_t kMaxItemsOfBlock = 64;
static_assert(sizeof(ExchangeCall) <= 4096, "what every GPU takes as a kernel's parameters");

// The tag in a slot of a message, from which a receiver can name a mismatch; tags of lanes are hashes.
struct ExchangeTag {
  static constexpr uint64_t kMark = uint64_t{0x5e4dba} << 40;
  static constexpr uint64_t kBytesMask = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t of(uint64_t message_bytes) { return kMark | (message_bytes & kBytesMask); }
  static constexpr uint64_t bytesOf(uint64_t tag) {
    return (tag & ~kBytesMask) == kMark ? tag & kBytesMask : ExchangeFailure::kNoMessage;
  }
};

}  // namespace horing::cuda
