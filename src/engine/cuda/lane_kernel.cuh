#pragma once
// The interpreter as kernels.
#include "engine/cuda/device_block.cuh"
#include "engine/cuda/lane.h"
#include "engine/cuda/lane_kernels.h"

namespace horing::cuda {

// A kernel's parameters are not cached when it begins, and a warp stalls at each cache line. So each warp fetches a different line at once.
__device__ inline void fetchParameters(const LaneCall& call) {
  constexpr uint32_t kWarp = 32, kLine = 64;
  static_assert(sizeof call <= kLaneThreads / kWarp * kLine);
  const uint32_t at = threadIdx.x / kWarp * kLine;
  if (at >= sizeof call) return;
  const uint32_t word = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const std::byte*>(&call) + at);
  asm volatile("" ::"r"(word));
}

template <class R>
__device__ void runLane(const LaneCalls& calls) {
  fetchParameters(calls.each[blockIdx.z]);
  __shared__ LaneShared shared;
  DeviceBlock<LaneShared, kLaneThreads> block(shared);
  static_assert(decltype(block)::crews() <= kMostCrews);
  runCalls<R>(calls,
              {static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(blockIdx.y),
               static_cast<int32_t>(blockIdx.z), static_cast<int32_t>(gridDim.z)},
              block);
}

}  // namespace horing::cuda

// Defines a kernel with the name of laneKernelName(). `type` and `op` as base/types.cpp names them.
#define HORING_LANE_KERNEL(Type, type, Op, op)                                                         \
  extern "C" __global__ void __launch_bounds__(horing::cuda::kLaneThreads)                             \
      horing_lane_##type##_##op(const __grid_constant__ horing::cuda::LaneCalls calls) {               \
    horing::cuda::runLane<horing::cuda::RuleOf<horing::DataType::Type, horing::RedOp::Op>>(calls);     \
  }
#define HORING_LANE_KERNELS(Type, type)          \
  HORING_LANE_KERNEL(Type, type, kSum, sum)      \
  HORING_LANE_KERNEL(Type, type, kProd, prod)    \
  HORING_LANE_KERNELS_OF_ORDER(Type, type)
#define HORING_LANE_KERNELS_OF_ORDER(Type, type) \
  HORING_LANE_KERNEL(Type, type, kMax, max)      \
  HORING_LANE_KERNEL(Type, type, kMin, min)      \
  HORING_LANE_KERNEL(Type, type, kAvg, avg)
#define HORING_LANE_KERNELS_OF_BITS(Type, type)  \
  HORING_LANE_KERNEL(Type, type, kBitAnd, band)  \
  HORING_LANE_KERNEL(Type, type, kBitOr, bor)    \
  HORING_LANE_KERNEL(Type, type, kBitXor, bxor)  \
  HORING_LANE_KERNEL(Type, type, kPreMulSum, premulsum)
