#pragma once
#include <memory>

#include "cuda/device.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// Pinned memory that kernels and the host can access; takes `most_bytes` at once, like makeDeviceMemory(). Errors: kUnhandledCudaError.
Result<std::unique_ptr<Memory>> makePinnedMemory(std::shared_ptr<const CudaDevice> device, size_t most_bytes);
// The same with existing pinned memory.
std::unique_ptr<Memory> asMemory(PinnedMemory memory);

}  // namespace horing::cuda
