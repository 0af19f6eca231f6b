#pragma once
// The kernel of sends and receives (exchange_kernel.cu), by its name.
#include "engine/cuda/exchange_call.h"

namespace horing::cuda {

inline constexpr int kExchangeThreads = 512;  // per block; blocks: the grid's x
inline constexpr const char* kExchangeKernel = "horing_exchange";

}  // namespace horing::cuda
