#pragma once
// How many slots of which size queues have, and how many parts a plan, in the memory that a rank may take of its GPU.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cuda/bound_plan.h"
#include "engine/cuda/queue.h"
#include "engine/host/plan.h"

namespace horing::cuda {

// What each rank takes of its GPU, at most and at once; what queues may take of it, with which every plan has some parts, and those that a
// plan of few queues has for more parts (comm/gpu/spare_queues.h). Plans have the rest.
inline constexpr size_t kGpuMemoryBytes = size_t{32} << 20;
inline constexpr size_t kGpuQueueBytes = size_t{20} << 20;
inline constexpr size_t kGpuSpareQueueBytes = size_t{8} << 20;

// Slots, each as large as `fits(shape)` lets it be; the smallest whether it fits or not.
template <typename Fits>
QueueShape gpuQueueShape(int32_t slots, const Fits& fits) {
  constexpr uint32_t kLargestSlot = 64 << 10, kSmallestSlot = 4 << 10;
  QueueShape shape{static_cast<uint32_t>(slots), kLargestSlot};
  while (!fits(shape) && shape.slot_bytes > kSmallestSlot) shape.slot_bytes /= 2;
  return shape;
}

struct GpuQueues {
  QueueShape shape;
  int32_t parts = 1;  // of any plan, for each has queues of its own
};

// Of ranks whose kernels reach each other's memory, all of them: as few slots as do, since a block moves one at a time, and larger slots
// and more parts are what keeps the memory busy.
inline GpuQueues gpuQueues(size_t ranks, int32_t window) {
  constexpr size_t kGoodParts = 7;          // smaller slots are worth so many
  constexpr size_t kMostScratchQueues = 2;  // that count for the size of slots
  const size_t queues = kLinkChannels * (ranks - 1) + kMostScratchQueues;
  const auto parts = [&](const QueueShape& shape) { return kGpuQueueBytes / (queues * queueBytes(shape)); };
  const QueueShape shape =
      gpuQueueShape(window + 1, [&](const QueueShape& tried) { return parts(tried) >= kGoodParts; });
  return {shape, static_cast<int32_t>(std::clamp<size_t>(parts(shape), 1, kMaxParts))};
}

}  // namespace horing::cuda
