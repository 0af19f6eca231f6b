#pragma once
// Kernels to compare the engine's with: its data body alone, and a ring written by hand with the same body and queues.
#include <cstddef>
#include <cstdint>

#include "engine/cuda/lane_call.h"

namespace horing::cuda_bench {

// first = sources[0] (+) sources[1] ... of float32, by `blocks` blocks; two sources at most.
void launchFold(const std::byte* a, const std::byte* b, std::byte* to, size_t count, int blocks,
                void* stream);

// All-reduce of float32 sums. Every rank's chunk is cut into parts, a block for each.
struct RingCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  cuda::Port* from_behind = nullptr;  // [part]
  cuda::Port* to_ahead = nullptr;     // [part]
  size_t count = 0;
  size_t chunk = 0;  // elements of each, but for the last ones
  size_t part = 0;
  Slicing slicing;
  int32_t slices = 0;  // of a part
  int32_t parts = 1;   // blocks
  int32_t rank = 0;
  int32_t ranks = 1;
  int32_t window = 4;
};
void launchRing(const RingCall& call, void* stream);

}  // namespace horing::cuda_bench
