#pragma once
#include "engine/cuda/lane.h"
#include "engine/cuda/lane_kernels.h"

namespace horing::cuda {

// A thread's view of its block, see engine/cuda/lane.h.
class DeviceBlock {
 public:
  __device__ explicit DeviceBlock(LaneShared& shared) : shared_(shared) {}
  __device__ uint32_t thread() const { return threadIdx.x; }
  __device__ uint32_t threads() const { return blockDim.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool any(bool value) const { return __syncthreads_or(value) != 0; }
  __device__ void pause() const {}
  __device__ LaneShared& shared() const { return shared_; }

 private:
  LaneShared& shared_;
};

template <class R>
__global__ void __launch_bounds__(kLaneThreads) laneKernel(const __grid_constant__ LaneCall call) {
  __shared__ LaneShared shared;
  DeviceBlock block(shared);
  LaneRun<R, DeviceBlock>(call, static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(blockIdx.y), block)
      .run();
}

template <class R>
struct KernelOf {
  static constexpr LaneKernel value = laneKernel<R>;
};

template <DataType kType>
LaneKernelRow laneKernelsOf() {
  return ruleRow<KernelOf, kType>();
}

}  // namespace horing::cuda
