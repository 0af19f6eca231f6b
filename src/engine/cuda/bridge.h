#pragma once
// Forwards the messages of a queue between a kernel and its host over a connection to another rank, so that kernels can communicate with
// ranks whose memory they cannot reach, without knowing it.
//
// The queue is in pinned memory, or its slots are in GPU memory, which only adapters access. The bridge is the queue's other end. Its only
// state is monotonic counters, and messages carry their own tags: a graph may replay kernels without a host call. Each queue has its own
// connection, so no queue can block another.
//
// If the transport allows it, the connection uses the queue's slots in place, and the host copies nothing: a kernel's slot is free again
// once the remote kernel has read the message. Otherwise messages are copied between the queue and the connection.
//
// The thread that drives the transport polls the bridge. A failed connection has no free slot and no message; its link has the error.
#include "engine/cuda/queue.h"
#include "engine/host/plan.h"
#include "transport/callers_slots.h"
#include "transport/transport.h"

namespace horing::cuda {

// The connection's slots have the size of the queue's slots and, if used in place, the same number. Both are unused so far.
class OutgoingBridge {
 public:
  // `end`: the receiving end of a queue into which a kernel sends.
  OutgoingBridge(const Port& end, Sender& sender, MemoryOf slots = MemoryOf::kHost);
  // Whether the connection uses the queue's slots; required for slots in GPU memory.
  bool isInPlace() const { return callers_ != nullptr; }
  // Forwards as many messages as there is room for. True if any moved.
  bool poll();
  // Whether everything that kernels have sent so far will arrive without further polling.
  bool flushed() { return !end_.canReceive() && sender_.flushed(); }

 private:
  bool release();

  Port end_;
  Sender& sender_;
  CallersSlotsSender* const callers_;  // null: messages are copied
  uint64_t released_ = 0;
};

class IncomingBridge {
 public:
  // `end`: the sending end of a queue from which a kernel receives.
  IncomingBridge(const Port& end, Receiver& receiver, MemoryOf slots = MemoryOf::kHost);
  bool isInPlace() const { return callers_ != nullptr; }
  // Hands the kernel as many messages as there is room for. True if any moved.
  bool poll();
  // Error: received messages cannot be handed to the kernel.
  const Status& status() const { return status_; }
  bool flushed() const { return receiver_.flushed(); }

 private:
  bool release();
  bool copy(const Message& message);

  Port end_;
  Receiver& receiver_;
  const MemoryOf slots_;
  CallersSlotsReceiver* const callers_;  // null: messages are copied
  uint64_t released_ = 0;
  Status status_;
};

// A bridge uses one channel for each channel and part; one link has at most this many parts.
inline constexpr int32_t kMaxPartsOfLink = kMaxLinkChannels / kLinkChannels;
constexpr int bridgeChannel(int32_t channel, int32_t part) {
  return part * kLinkChannels + channel;
}
struct BridgedPart {
  int32_t channel;
  int32_t part;
};
constexpr BridgedPart bridgedPart(int bridge_channel) {
  return {bridge_channel % kLinkChannels, bridge_channel / kLinkChannels};
}

}  // namespace horing::cuda
