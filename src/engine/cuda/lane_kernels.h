#pragma once
// The kernels: one for each type and operation, all instances of engine/cuda/lane.h, in images that the driver loads (lane_image.h).
#include <string>

#include "engine/cuda/lane_call.h"

namespace horing::cuda {

inline constexpr int kLaneThreads = 512;  // per block

// The name of the kernel for the type and the operation; several may share one. Collectives without a fold use the kernel of sums.
inline std::string laneKernelName(DataType type, RedOp op) {
  const bool is_signed = type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
  const bool is_ordered = op == RedOp::kMax || op == RedOp::kMin || op == RedOp::kAvg;
  if (is_signed && !is_ordered) type = static_cast<DataType>(static_cast<int>(type) + 1);
  if (isFloatingPoint(type) && op == RedOp::kPreMulSum) op = RedOp::kAvg;
  return std::string("horing_lane_") + dataTypeName(type) + '_' + redOpName(op);
}

}  // namespace horing::cuda
