#pragma once
// GPU memory shared with other processes of the node (CUDA IPC): one process shares an allocation, and others open it, each at its own
// address.
#include <cstddef>
#include <memory>

#include "cuda/device.h"

namespace horing {

// The handle by which other processes open the allocation that begins at `begin`. An error says why they cannot.
Result<CudaIpcHandle> shareMemory(const CudaDevice& device, const std::byte* begin);

// Memory shared by another process, for kernels and copies of one GPU of this process. A resource.
//
// The driver's rule: the other process must not free the memory before this object is destroyed.
class OpenedMemory {
 public:
  // `handle` is untrusted. kUnhandledCudaError: it opens nothing, or less than `bytes`, or memory of a GPU without peer access.
  static Result<std::unique_ptr<OpenedMemory>> open(std::shared_ptr<const CudaDevice> device,
                                                    const CudaIpcHandle& handle, size_t bytes);
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  std::byte* begin() const { return reinterpret_cast<std::byte*>(at_); }

 private:
  OpenedMemory(std::shared_ptr<const CudaDevice> device, CudaAddress at)
      : device_(std::move(device)), at_(at) {}
  const std::shared_ptr<const CudaDevice> device_;
  const CudaAddress at_;
};

}  // namespace horing
