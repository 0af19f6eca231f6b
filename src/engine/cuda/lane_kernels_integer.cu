#include "engine/cuda/lane_kernel.cuh"

namespace horing::cuda {

// Signed and unsigned types share the kernels that do not care.
template LaneKernelRow laneKernelsOf<DataType::kInt8>();
template LaneKernelRow laneKernelsOf<DataType::kUint8>();
template LaneKernelRow laneKernelsOf<DataType::kInt32>();
template LaneKernelRow laneKernelsOf<DataType::kUint32>();
template LaneKernelRow laneKernelsOf<DataType::kInt64>();
template LaneKernelRow laneKernelsOf<DataType::kUint64>();

}  // namespace horing::cuda
