#pragma once
// The kernel of copies that the host asks for (copy_kernel.cu), by its name.
#include "engine/cuda/copy_call.h"

namespace horing::cuda {

inline constexpr int kCopyThreads = 512;  // of a block; blocks: the grid's x
// What fills PCIe both ways leaves nearly all of a GPU to other kernels.
inline constexpr int kCopyBlocks = 8;
inline constexpr const char* kCopyKernel = "horing_copy";

}  // namespace horing::cuda
