#include "engine/cuda/lane_kernel.cuh"

HORING_LANE_KERNELS(kFloat16, float16)
HORING_LANE_KERNELS(kFloat32, float32)
HORING_LANE_KERNELS(kFloat64, float64)
HORING_LANE_KERNELS(kBfloat16, bfloat16)
HORING_LANE_KERNELS(kFloat8e4m3, float8e4m3)
HORING_LANE_KERNELS(kFloat8e5m2, float8e5m2)
