#pragma once
// The kernels: one for each type and operation, all of them engine/cuda/lane.h. They are compiled into images that the driver
// loads (lane_image.h), and found by name.
#include <string>

#include "engine/cuda/lane_call.h"

namespace horing::cuda {

inline constexpr int kLaneThreads = 512;  // of a block

// Of the kernel that serves the type and the operation, which several may share. Collectives without a fold run by that of sums.
inline std::string laneKernelName(DataType type, RedOp op) {
  const bool is_signed = type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
  const bool is_ordered = op == RedOp::kMax || op == RedOp::kMin || op == RedOp::kAvg;
  if (is_signed && !is_ordered) type = static_cast<DataType>(static_cast<int>(type) + 1);
  if (isFloatingPoint(type) && op == RedOp::kPreMulSum) op = RedOp::kAvg;
  return std::string("horing_lane_") + dataTypeName(type) + '_' + redOpName(op);
}

}  // namespace horing::cuda
