#pragma once
// A GPU's memory for other processes of its node (CUDA IPC): one shares an allocation, and others open it, each at an address of its
// own.
#include <cstddef>
#include <memory>

#include "cuda/device.h"

namespace horing {

// By which other processes open the allocation that begins at `begin`. An error says why they cannot.
Result<CudaIpcHandle> shareMemory(const CudaDevice& device, const std::byte* begin);

// What another process shares, for kernels and copies of one GPU of this one. A resource.
//
// The driver's rule: the other process must not free it before this has gone.
class OpenedMemory {
 public:
  // `handle` may be hostile. kUnhandledCudaError: it opens nothing, or less than `bytes`, or another GPU's memory that this one does
  // not reach.
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
