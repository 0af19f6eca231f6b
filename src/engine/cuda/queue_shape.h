#pragma once
// The number and size of slots, and the parts of a plan, within the GPU memory that a rank may take.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cuda/bound_plan.h"
#include "engine/cuda/queue.h"
#include "engine/host/plan.h"

namespace horing::cuda {

// The GPU memory that each rank takes at once; the share for queues, which give every plan its parts; and the share for spare queues, with
// which plans of few queues have more parts (comm/gpu/spare_queues.h). The rest is for plans.
inline constexpr size_t kGpuMemoryBytes = size_t{32} << 20;
inline constexpr size_t kGpuQueueBytes = size_t{20} << 20;
inline constexpr size_t kGpuSpareQueueBytes = size_t{8} << 20;

// The largest slots for which `fits(shape)` holds; the smallest even if they do not fit.
template <typename Fits>
QueueShape gpuQueueShape(int32_t slots, const Fits& fits) {
  constexpr uint32_t kLargestSlot = 64 << 10, kSmallestSlot = 4 << 10;
  QueueShape shape{static_cast<uint32_t>(slots), kLargestSlot};
  while (!fits(shape) && shape.slot_bytes > kSmallestSlot) shape.slot_bytes /= 2;
  return shape;
}

struct GpuQueues {
  QueueShape shape;
  int32_t parts = 1;  // of any plan; each part has its own queues
};

// For ranks whose kernels all reach each other's memory: as few slots as possible, since a block moves one at a time, and larger slots and
// more parts use the memory bandwidth better.
inline GpuQueues gpuQueues(size_t ranks, int32_t window) {
  constexpr size_t kGoodParts = 7;          // smaller slots pay off up to this many parts
  constexpr size_t kMostScratchQueues = 2;  // considered for the size of slots
  const size_t queues = kLinkChannels * (ranks - 1) + kMostScratchQueues;
  const auto parts = [&](const QueueShape& shape) { return kGpuQueueBytes / (queues * queueBytes(shape)); };
  const QueueShape shape =
      gpuQueueShape(window + 1, [&](const QueueShape& tried) { return parts(tried) >= kGoodParts; });
  return {shape, static_cast<int32_t>(std::clamp<size_t>(parts(shape), 1, kMaxParts))};
}

}  // namespace horing::cuda
