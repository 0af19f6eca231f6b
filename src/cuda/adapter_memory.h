#pragma once
// GPU memory for RDMA adapters, which read and write it without the host (GPUDirect RDMA): registered as a dma-buf or, with NVIDIA's module
// nvidia-peermem, by its address, like host memory.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "cuda/device.h"

namespace horing {

// How adapters may access it.
struct AdapterWays {
  bool dmabuf = false;
  bool by_address = false;
  // From HORING_IB_GPU_MEMORY and the modules listed under `sys`.
  static AdapterWays of(std::string_view choice, const std::string& sys = "/sys");
};

struct AdapterMemory {
  Fd dmabuf;            // none: registered by address
  uint64_t offset = 0;  // offset of the memory in the dma-buf
  bool by_address = false;
};

// Access to [begin, begin + bytes), memory of this GPU. Errors: adapters cannot register it, or their writes would not be ordered before
// the GPU's reads; the text says why.
Result<AdapterMemory> adapterMemory(const CudaDevice& device, const std::byte* begin, size_t bytes,
                                    const AdapterWays& ways);

// Whether the GPU sees adapters' writes without flushAdapterWrites().
bool ordersAdapterWrites(const CudaDevice& device);

// Makes completed adapter writes visible to GPU work that is launched afterwards.
Status flushAdapterWrites(const CudaDevice& device);

}  // namespace horing
