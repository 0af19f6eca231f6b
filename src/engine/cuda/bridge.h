#pragma once
// Carries the messages of a queue between a kernel and its host on, over a connection to another rank: so kernels talk to ranks
// whose memory they do not reach, and know nothing of it.
//
// The queue lies in pinned memory, or its slots in that of the GPU, where adapters alone reach them; here is its other end. Nothing is
// kept from call to call but counters that only grow, and messages say themselves whose they are: a graph may replay kernels, and no
// call of the host is needed. A queue has a connection of its own, so none can hold up another.
//
// Where the transport allows it, slots of the queue are those of the connection, and the host copies nothing: a kernel's slot is free
// again once the kernel over there has read its message. Else messages are copied between both.
//
// Whoever drives the transport polls. A connection that fails has no slot to give and no message to show: its link tells why.
#include "engine/cuda/queue.h"
#include "engine/host/plan.h"
#include "transport/transport.h"

namespace horing::cuda {

// Slots of the connection are as large as those of the queue; as many, too, where they are to be the same. Nobody has used either yet.
class OutgoingBridge {
 public:
  // `end`: the receiving one, of a queue into which a kernel sends.
  OutgoingBridge(const Port& end, Sender& sender, MemoryOf slots = MemoryOf::kHost);
  // Slots are the connection's; those of a GPU must be.
  bool isInPlace() const { return in_place_; }
  // Sends on what there is room for. True if something moved.
  bool poll();
  // All that kernels have sent so far will arrive without further help.
  bool flushed() { return !end_.canReceive() && sender_.flushed(); }

 private:
  bool release();

  Port end_;
  Sender& sender_;
  const bool in_place_;
  uint64_t released_ = 0;
};

class IncomingBridge {
 public:
  // `end`: the sending one, of a queue from which a kernel receives.
  IncomingBridge(const Port& end, Receiver& receiver, MemoryOf slots = MemoryOf::kHost);
  bool isInPlace() const { return in_place_; }
  // Hands the kernel what there is room for. True if something moved.
  bool poll();
  // Not ok: messages that have come cannot be handed over.
  const Status& status() const { return status_; }
  bool flushed() const { return receiver_.flushed(); }

 private:
  bool release();
  bool copy(const Message& message);

  Port end_;
  Receiver& receiver_;
  const MemoryOf slots_;
  const bool in_place_;
  uint64_t released_ = 0;
  Status status_;
};

// What carries all queues between two ranks has a channel for each channel and part; of one link no more than these.
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
