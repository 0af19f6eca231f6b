#pragma once
// Copies by a kernel that runs on the caller's stream while the host carries an operation out (engine/cuda/copy_call.h). To ask for one, and
// whether it is done, takes no call of the driver.
#include <memory>

#include "comm/gpu/gpu_copier.h"
#include "engine/cuda/copy_kernel.h"
#include "engine/cuda/lane_gpu.h"

namespace horing {

// A resource. launch() from one thread, copies from one other or the same.
class KernelCopier final : public GpuCopier {
 public:
  // For so many copies at once at most. Errors: kUnhandledCudaError, where kernels do not load, or launches wait for them, too.
  static Result<std::unique_ptr<KernelCopier>> create(const std::shared_ptr<const CudaDevice>& device,
                                                      size_t most_copies);
  // No kernel may be queued or running any more, else leak() comes before.
  ~KernelCopier() override = default;

  // On a stream: the kernel that does what is asked for until `last` is reached (CopyCall). One after the other.
  Status launch(const uint32_t* reached, uint32_t last, const uint32_t* ended, CudaStream stream);

  Result<uint64_t> start(CudaAddress to, CudaAddress from, size_t bytes, Direction direction) override;
  Result<bool> isDone(uint64_t copy) override { return hasDone(copy); }
  // The kernel has ended then.
  bool isCopying() const override { return false; }
  bool takesAnyMemory() const override { return false; }

  uint64_t memoryBytes() const { return memory_.bytes(); }
  // Never gives back what a kernel needs.
  void leak();

 private:
  KernelCopier(std::shared_ptr<cuda::LaneGpu> gpu, PinnedMemory memory, uint32_t room);
  // The first so many.
  bool hasDone(uint64_t requests) const;

  std::shared_ptr<cuda::LaneGpu> gpu_;
  PinnedMemory memory_;  // counts: posted, and done by each block; then requests
  const uint32_t room_;
  cuda::CopyCount* const counts_;
  cuda::CopyRequest* const requests_;
};

}  // namespace horing
