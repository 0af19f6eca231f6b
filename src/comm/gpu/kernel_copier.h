#pragma once
// Copies by a kernel that runs on the caller's stream while the host runs an operation (engine/cuda/copy_call.h). Starting and polling a
// copy needs no driver call.
#include <memory>

#include "comm/gpu/gpu_copier.h"
#include "engine/cuda/copy_kernel.h"
#include "engine/cuda/lane_gpu.h"

namespace horing {

// A resource. launch() from one thread, copies from one thread.
class KernelCopier final : public GpuCopier {
 public:
  // For at most this many concurrent copies. Errors: kUnhandledCudaError, also if kernels do not load, or if launches block.
  static Result<std::unique_ptr<KernelCopier>> create(const std::shared_ptr<const CudaDevice>& device,
                                                      size_t most_copies);
  // No kernel may be queued or running; otherwise call leak() first.
  ~KernelCopier() override = default;

  // Launches the kernel, which serves requests until `last` is reached (CopyCall). One kernel at a time.
  Status launch(const uint32_t* reached, uint32_t last, const uint32_t* ended, CudaStream stream);

  Result<uint64_t> start(CudaAddress to, CudaAddress from, size_t bytes, Direction direction) override;
  Result<bool> isDone(uint64_t copy) override { return hasDone(copy); }
  // The kernel has ended by then.
  bool isCopying() const override { return false; }
  bool takesAnyMemory() const override { return false; }

  uint64_t memoryBytes() const { return memory_.bytes(); }
  // Never frees the resources of a kernel.
  void leak();

 private:
  KernelCopier(std::shared_ptr<cuda::LaneGpu> gpu, PinnedMemory memory, uint32_t room);
  // Whether the first `requests` requests are done.
  bool hasDone(uint64_t requests) const;

  std::shared_ptr<cuda::LaneGpu> gpu_;
  PinnedMemory memory_;  // counters: posted, and done by each block; then the requests
  const uint32_t room_;
  cuda::CopyCount* const counts_;
  cuda::CopyRequest* const requests_;
};

}  // namespace horing
