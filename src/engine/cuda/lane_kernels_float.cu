#include "engine/cuda/lane_kernel.cuh"

namespace horing::cuda {

template LaneKernelRow laneKernelsOf<DataType::kFloat16>();
template LaneKernelRow laneKernelsOf<DataType::kFloat32>();
template LaneKernelRow laneKernelsOf<DataType::kFloat64>();
template LaneKernelRow laneKernelsOf<DataType::kBfloat16>();
template LaneKernelRow laneKernelsOf<DataType::kFloat8e4m3>();
template LaneKernelRow laneKernelsOf<DataType::kFloat8e5m2>();

}  // namespace horing::cuda
