#pragma once
#include <memory>

#include "cuda/device.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// Memory of the host, up to `most_bytes` in all, that kernels reach as the host does; taken at once, as makeDeviceMemory() does.
// Errors: kUnhandledCudaError.
Result<std::unique_ptr<Memory>> makePinnedMemory(std::shared_ptr<const CudaDevice> device, size_t most_bytes);
// The same of what has been taken.
std::unique_ptr<Memory> asMemory(PinnedMemory memory);

}  // namespace horing::cuda
