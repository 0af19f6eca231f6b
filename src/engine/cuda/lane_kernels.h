#pragma once
// The kernels: one for each type and operation, all of them engine/cuda/lane.h.
#include <array>

#include "engine/cuda/lane_call.h"

namespace horing::cuda {

inline constexpr int kLaneThreads = 512;  // of a block

// A block for each lane (x) of each part (y). Collectives without a fold run by the kernel of sums.
using LaneKernel = void (*)(LaneCall);
using LaneKernelRow = std::array<LaneKernel, kRedOps>;

// By operation; null where the type has none. In lane_kernels_*.cu.
template <DataType kType>
LaneKernelRow laneKernelsOf();

}  // namespace horing::cuda
