#pragma once
// A thread's view of its block on a GPU, see engine/cuda/lane.h.
#include <cstdint>

namespace horing::cuda {

__device__ inline uint64_t globalTimerNs() {
  uint64_t now_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now_ns));
  return now_ns;
}

// Two warps, so that the first can wait for messages and the second for room, with a hardware barrier; barrier 0 is the block's.
class DeviceCrew {
 public:
  static constexpr bool kIsCrew = true;
  static constexpr int kThreads = 64;
  __device__ int32_t number() const { return static_cast<int32_t>(threadIdx.x / kThreads); }
  __device__ uint32_t thread() const { return threadIdx.x % kThreads; }
  __device__ static constexpr uint32_t threads() { return kThreads; }
  __device__ void sync() const {
    asm volatile("barrier.sync %0, %1;" ::"r"(number() + 1), "n"(kThreads) : "memory");
  }
  __device__ void pause() const {}
  __device__ uint64_t nowNs() const { return globalTimerNs(); }
};

// `kThreads` is a constant, so that the packs of a tile have constant offsets, which need no registers.
template <class Shared, int kThreads>
class DeviceBlock {
 public:
  static constexpr bool kIsCrew = false;
  __device__ explicit DeviceBlock(Shared& shared) : shared_(shared) {}
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ static constexpr uint32_t threads() { return kThreads; }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool any(bool value) const { return __syncthreads_or(value) != 0; }
  __device__ void pause() const {}
  // Between polls of host memory, which delay copies and fences.
  __device__ void nap() const { __nanosleep(500); }
  __device__ uint64_t nowNs() const { return globalTimerNs(); }
  __device__ static constexpr int32_t crews() { return kThreads / DeviceCrew::kThreads; }
  __device__ DeviceCrew crew() const { return {}; }
  __device__ Shared& shared() const { return shared_; }

 private:
  Shared& shared_;
};

}  // namespace horing::cuda
