#pragma once
// How large the queues of kernels are whose ranks are processes, how many parts plans have, and what memory that takes. The same on every
// rank, before it has asked any other: inside a node GPUs may turn out to reach each other's memory, between nodes hosts carry.
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
  // What a rank takes of its host's memory, pinned and at once, for what kernels tell; and at most for what they send to strangers, ranks
  // whose memory they do not reach: of plans, and of messages.
  static constexpr size_t kToldBytes = size_t{1} << 20;
  static constexpr size_t kMostPlanBytes = size_t{45} << 20;
  static constexpr size_t kMostMessageBytes = size_t{19} << 20;
  // Besides, so many ends of queues for the parts that rings have beyond those of any plan: `ho_ring` has four ends for each part of an
  // all-reduce, with which all-gather and reduce-scatter, of two, have as many parts again and more.
  static constexpr size_t kMostSpareEnds = 32;
  static constexpr size_t kMostSpareBytes = size_t{19} << 20;
  // Of the GPU's memory where there are several nodes: for seats and spare queues. Slots of adapters may take 8 MiB more (bridged_queues.h);
  // plans have the rest, of which queues between lanes of a rank may need 10 MiB (`ho_leaders` of four nodes with eight).
  static constexpr size_t kMostSharedBytes = size_t{13} << 20;

  cuda::QueueShape shape;          // in memory of GPUs
  cuda::QueueShape bridged_shape;  // pinned, for strangers: with more slots
  int32_t parts = 1;               // of any plan, if there are no strangers
  int32_t bridged_parts = 1;       // if there are some
  size_t spare_bytes = 0;          // of each GPU, for queues of more parts

  static GpuQueueSizes choose(const GpuSeats& seats, size_t ranks, int32_t window);

  // What rings may have; up to four links to each stranger carry them.
  int32_t mostBridgedParts() const { return bridged_parts * kCollectiveLinks; }
  // Pinned, of a rank with so many strangers.
  size_t planBytes(size_t strangers) const;
  size_t spareEnds() const { return std::min(kMostSpareEnds, kMostSpareBytes / endBytes(bridged_shape)); }
  size_t spareEndsBytes() const { return spareEnds() * endBytes(bridged_shape); }
  size_t messageBytes(size_t strangers, int32_t of_parts) const {
    return bytesOf(bridged_shape, strangers, of_parts);
  }
  // Of messages to strangers, if no rank has more of them: 0: there is room for none.
  int32_t messageParts(size_t most_strangers) const;

 private:
  // Of queues in both directions.
  static size_t bytesOf(const cuda::QueueShape& shape, size_t strangers, int32_t parts) {
    return 2 * strangers * static_cast<size_t>(parts) * endBytes(shape);
  }
  // Of a queue with its sender, as much as with its receiver.
  static size_t endBytes(const cuda::QueueShape& shape) {
    return cuda::queueBytes(shape) + cuda::kQueueCounterBytes;
  }
};

}  // namespace horing
