#include "engine/cuda/lane_kernel.cuh"

HORING_LANE_KERNELS(kUint8, uint8)
HORING_LANE_KERNELS(kUint32, uint32)
HORING_LANE_KERNELS(kUint64, uint64)
HORING_LANE_KERNELS_OF_BITS(kUint8, uint8)
HORING_LANE_KERNELS_OF_BITS(kUint32, uint32)
HORING_LANE_KERNELS_OF_BITS(kUint64, uint64)
// The other operations wrap around and use the kernels of unsigned integers.
HORING_LANE_KERNELS_OF_ORDER(kInt8, int8)
HORING_LANE_KERNELS_OF_ORDER(kInt32, int32)
HORING_LANE_KERNELS_OF_ORDER(kInt64, int64)
