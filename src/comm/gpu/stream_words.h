#pragma once
// Numbers in pinned memory, by which streams of CUDA and the host wait for each other. They only grow, but for wrapping around.
#include <atomic>
#include <cstdint>

#include "cuda/api.h"

namespace horing {

inline bool hasReached(const std::atomic<uint32_t>& word, uint32_t number) {
  // acquire: pairs with the GPU's write after its copies.
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - number) >= 0;
}

// Enqueues that the stream writes `number` there.
inline Status enqueueWrite(const CudaApi& api, CudaStream stream, CudaAddress at, uint32_t number) {
  return api.check(api.stream_write_value(stream, at, number, 0), "letting a stream tell the host");
}

// Enqueues that the stream waits until the host has written `number` there, or a later one.
inline Status enqueueWait(const CudaApi& api, CudaStream stream, CudaAddress at, uint32_t number) {
  constexpr unsigned int kUntilAtLeast = 0;  // from cuda.h: compares by signed difference
  return api.check(api.stream_wait_value(stream, at, number, kUntilAtLeast),
                   "letting a stream wait for the host");
}

}  // namespace horing
