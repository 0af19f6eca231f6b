#pragma once
// The kernel that works on elements (element_kernel.cu), by name.
#include "engine/cuda/element_call.h"

namespace horing::cuda {

inline constexpr int kElementThreads = 256;  // per block; blocks: the grid's x
inline constexpr const char* kElementKernel = "horing_elements";

}  // namespace horing::cuda
