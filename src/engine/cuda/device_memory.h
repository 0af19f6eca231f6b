#pragma once
#include <memory>

#include "cuda/device.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// Memory of one GPU from the reserve (cuda/reserve.h). Takes `most_bytes` at once, so that no later allocation makes the driver wait for
// kernels that wait for each other. Errors: kUnhandledCudaError.
Result<std::unique_ptr<Memory>> makeDeviceMemory(std::shared_ptr<const CudaDevice> device, size_t most_bytes);

}  // namespace horing::cuda
