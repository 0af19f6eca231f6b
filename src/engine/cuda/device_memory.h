#pragma once
#include <memory>

#include "cuda/device.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// Memory of one GPU, of the reserve (cuda/reserve.h), up to `most_bytes` in all, which is taken at once: later no allocation makes the driver wait for kernels
// that wait for each other. Errors: kUnhandledCudaError.
Result<std::unique_ptr<Memory>> makeDeviceMemory(std::shared_ptr<const CudaDevice> device, size_t most_bytes);

}  // namespace horing::cuda
