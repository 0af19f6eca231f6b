#pragma once
// A GPU's memory for the adapters beside it, which read and write it without the host (GPUDirect RDMA): as a dma-buf of the kernel, which
// they register, or, with NVIDIA's module nvidia-peermem, by its address, as memory of the host.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "cuda/device.h"

namespace horing {

// How adapters may find it.
struct AdapterWays {
  bool dmabuf = false;
  bool by_address = false;
  // HORING_IB_GPU_MEMORY, on a machine whose modules are listed there.
  static AdapterWays of(std::string_view choice, const std::string& sys = "/sys");
};

struct AdapterMemory {
  Fd dmabuf;            // none: they find it by its address alone
  uint64_t offset = 0;  // where the memory begins in it
  bool by_address = false;
};

// Of [begin, begin + bytes), which is memory of this GPU. An error says why adapters cannot have it: it may be found in no way, or nothing
// would order what adapters write before what the GPU reads.
Result<AdapterMemory> adapterMemory(const CudaDevice& device, const std::byte* begin, size_t bytes,
                                    const AdapterWays& ways);

// Whether the GPU finds what adapters have written without flushAdapterWrites().
bool ordersAdapterWrites(const CudaDevice& device);

// Once adapters have written: what the GPU is told to do from now on finds it.
Status flushAdapterWrites(const CudaDevice& device);

}  // namespace horing
