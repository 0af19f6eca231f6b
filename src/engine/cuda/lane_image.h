#pragma once
// The compiled kernels, as bytes of this library that a driver loads: nothing of CUDA is linked, and a process that uses no GPU
// never looks at them.
#include <cstddef>

namespace horing::cuda {

enum class LaneImage { kFloats, kIntegers, kExchange, kCopy };
inline constexpr int kLaneImages = 4;

// A fat binary; one of no kernels, which drivers refuse, where the library was built without a CUDA compiler.
const void* laneImage(LaneImage image);
// Of the CUDA compiler that made them, as "13.0"; null: there are none. A driver loads what is no newer than itself.
const char* laneImageVersion();

}  // namespace horing::cuda
