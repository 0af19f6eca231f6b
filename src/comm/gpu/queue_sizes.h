#pragma once
// The sizes of kernels' queues between ranks that are processes, the parts of plans, and the memory for both. Every rank computes the same
// without communication. Inside a node GPUs may reach each other's memory; between nodes proxies carry messages. A *proxied* rank is one
// whose memory a kernel cannot reach.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/gpu/neighbors.h"
#include "comm/links/connector.h"
#include "engine/cuda/bridge.h"
#include "engine/cuda/queue_shape.h"

namespace horing {

// A value.
struct GpuQueueSizes {
  // Pinned host memory that a rank allocates at once: for activity words, and at most for queues to proxied ranks: of plans, of messages.
  static constexpr size_t kToldBytes = size_t{1} << 20;
  static constexpr size_t kMostPlanBytes = size_t{45} << 20;
  static constexpr size_t kMostMessageBytes = size_t{19} << 20;
  // Further queue ends for the spare parts of rings: `ho_ring` needs four ends for each part of an all-reduce, and two for all-gather and
  // reduce-scatter, which so get twice the parts.
  static constexpr size_t kMostSpareEnds = 32;
  static constexpr size_t kMostSpareBytes = size_t{19} << 20;
  // GPU memory for mailboxes and spare queues, on several nodes. Slots for adapters may take 8 MiB more (bridged_queues.h); plans have the
  // rest, of which queues between lanes of a rank may need 10 MiB (`ho_leaders` on four nodes of eight).
  static constexpr size_t kMostSharedBytes = size_t{13} << 20;

  cuda::QueueShape shape;          // in GPU memory
  cuda::QueueShape bridged_shape;  // pinned, for proxied ranks: with more slots
  int32_t parts = 1;               // of any plan, without proxied ranks
  int32_t bridged_parts = 1;       // of any plan, with proxied ranks
  size_t spare_bytes = 0;          // on each GPU, for spare queues

  static GpuQueueSizes choose(const GpuMailboxes& mailboxes, size_t ranks, int32_t window);

  // The most parts of rings, over up to four links to each proxied rank.
  int32_t mostBridgedParts() const { return bridged_parts * kCollectiveLinks; }
  // Pinned memory of a rank with this many proxied ranks.
  size_t planBytes(size_t proxied) const;
  size_t spareEnds() const { return std::min(kMostSpareEnds, kMostSpareBytes / endBytes()); }
  size_t spareEndsBytes() const { return spareEnds() * endBytes(); }
  // Of a queue to a proxied rank, at either end.
  size_t endBytes() const { return endBytes(bridged_shape); }
  size_t messageBytes(size_t proxied, int32_t of_parts) const {
    return bytesOf(bridged_shape, proxied, of_parts);
  }
  // Parts of messages to proxied ranks, if no rank has more proxied ranks than this; 0: no room.
  int32_t messageParts(size_t most_proxied) const;

 private:
  // Bytes of queues in both directions.
  static size_t bytesOf(const cuda::QueueShape& shape, size_t proxied, int32_t parts) {
    return 2 * proxied * static_cast<size_t>(parts) * endBytes(shape);
  }
  // Bytes of a queue at its sender, and the same at its receiver.
  static size_t endBytes(const cuda::QueueShape& shape) {
    return cuda::queueBytes(shape) + cuda::kQueueCounterBytes;
  }
};

}  // namespace horing
