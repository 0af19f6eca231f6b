#pragma once
// A thread's view of its block on a GPU, see engine/cuda/lane.h.
#include <cstdint>

namespace horing::cuda {

// `kThreads`: a constant, so that the packs of a tile are constants apart, which takes no registers.
template <class Shared, int kThreads>
class DeviceBlock {
 public:
  __device__ explicit DeviceBlock(Shared& shared) : shared_(shared) {}
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ static constexpr uint32_t threads() { return kThreads; }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool any(bool value) const { return __syncthreads_or(value) != 0; }
  __device__ void pause() const {}
  __device__ uint64_t nowNs() const {
    uint64_t now_ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now_ns));
    return now_ns;
  }
  __device__ Shared& shared() const { return shared_; }

 private:
  Shared& shared_;
};

}  // namespace horing::cuda
