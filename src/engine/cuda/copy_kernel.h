#pragma once
// The kernel that copies on request of the host (copy_kernel.cu), by name.
#include "engine/cuda/copy_call.h"

namespace horing::cuda {

inline constexpr int kCopyThreads = 512;  // per block; blocks: the grid's x
// Enough blocks to saturate PCIe both ways; nearly all of a GPU is left to other kernels.
inline constexpr int kCopyBlocks = 8;
inline constexpr const char* kCopyKernel = "horing_copy";

}  // namespace horing::cuda
