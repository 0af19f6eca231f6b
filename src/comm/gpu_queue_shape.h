#pragma once
#include <cstdint>

#include "engine/cuda/queue.h"

namespace horing {

// Of queues between kernels: two windows and one more slot, so that a sender need not wait for each credit, each as large as
// `fits(shape)` lets it be; the smallest whether it fits or not.
template <typename Fits>
cuda::QueueShape gpuQueueShape(int32_t window, const Fits& fits) {
  constexpr uint32_t kLargestSlot = 64 << 10, kSmallestSlot = 4 << 10;
  cuda::QueueShape shape{2 * static_cast<uint32_t>(window) + 1, kLargestSlot};
  while (!fits(shape) && shape.slot_bytes > kSmallestSlot) shape.slot_bytes /= 2;
  return shape;
}

}  // namespace horing
