#pragma once
// The compiled kernels, embedded in this library for the driver to load: no CUDA library is linked, and a process without a GPU never reads
// them.
#include <cstddef>

namespace horing::cuda {

enum class LaneImage { kFloats, kIntegers, kExchange, kCopy, kElements };
inline constexpr int kLaneImages = 5;

// A fat binary; without kernels, and refused by drivers, if the library was built without a CUDA compiler.
const void* laneImage(LaneImage image);
// The version of the CUDA compiler, such as "13.0"; null: no kernels. A driver loads kernels of its own version or older.
const char* laneImageVersion();

}  // namespace horing::cuda
