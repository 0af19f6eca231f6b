#pragma once
// GPU memory shared with other ranks of the node: one rank shares an allocation, and others open it by its handle, in another process at
// an address of its own (CUDA IPC), in the same process at the same one, which the driver would refuse.
#include <cstddef>
#include <memory>
#include <utility>

#include "cuda/device.h"

namespace horing {

// An allocation that others may open. A resource: ranks of this process can open it only during its lifetime.
class SharedMemory {
 public:
  // Of the allocation that begins at `begin`. An error says why others cannot open it.
  static Result<std::unique_ptr<SharedMemory>> make(std::shared_ptr<const CudaDevice> device,
                                                    const std::byte* begin);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const CudaIpcHandle& handle() const { return handle_; }
  // Keeps the memory's owner until this object is destroyed and no rank of this process has the memory open.
  void keep(std::shared_ptr<void> owner);

 private:
  struct Allocation;  // of this process, shared by all that have it open
  friend class OpenedMemory;
  friend class SharedHere;
  SharedMemory(const CudaIpcHandle& handle, std::shared_ptr<Allocation> allocation)
      : handle_(handle), allocation_(std::move(allocation)) {}
  const CudaIpcHandle handle_;
  const std::shared_ptr<Allocation> allocation_;
};

// Memory shared by another rank, for kernels and copies of one GPU of this process. A resource.
//
// The driver's rule: the other rank must not free the memory before this object is destroyed.
class OpenedMemory {
 public:
  // `handle` is untrusted. kUnhandledCudaError: it opens nothing, or less than `bytes`, or memory of a GPU without peer access.
  static Result<std::unique_ptr<OpenedMemory>> open(std::shared_ptr<const CudaDevice> device,
                                                    const CudaIpcHandle& handle, size_t bytes);
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  std::byte* begin() const { return reinterpret_cast<std::byte*>(at_); }
  bool isOfThisProcess() const { return of_this_process_ != nullptr; }
  // For kernels and copies that may still run: the driver keeps it open until this process ends.
  void leak() { is_leaked_ = true; }

 private:
  OpenedMemory(std::shared_ptr<const CudaDevice> device, CudaAddress at,
               std::shared_ptr<SharedMemory::Allocation> of_this_process)
      : device_(std::move(device)), at_(at), of_this_process_(std::move(of_this_process)) {}
  const std::shared_ptr<const CudaDevice> device_;
  const CudaAddress at_;
  const std::shared_ptr<SharedMemory::Allocation> of_this_process_;  // null: of another process
  bool is_leaked_ = false;
};

}  // namespace horing
