#pragma once
// A GPU's memory for the adapters beside it: as a dma-buf of the kernel, which they register, and read and write without the host.
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "cuda/device.h"

namespace horing {

struct CudaDmabuf {
  Fd fd;
  uint64_t offset = 0;  // where the memory begins in it
};

// Of [begin, begin + bytes), which is memory of this GPU. An error says why adapters cannot have it: the driver, the kernel or the GPU
// knows no dma-buf, or nothing would order what adapters write before what the GPU reads.
Result<CudaDmabuf> exportDmabuf(const CudaDevice& device, const std::byte* begin, size_t bytes);

// Whether the GPU finds what adapters have written without flushAdapterWrites().
bool ordersAdapterWrites(const CudaDevice& device);

// Once adapters have written: what the GPU is told to do from now on finds it.
Status flushAdapterWrites(const CudaDevice& device);

}  // namespace horing
