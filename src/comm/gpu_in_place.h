#pragma once
// What moving a GPU's memory in place needs of that GPU: copies where a message cannot go in place after all, and the order of what
// adapters write.
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/cuda_device.h"
#include "engine/host/point_to_point.h"

namespace horing {

// A resource of one thread. Nothing is made before the first copy.
class GpuInPlace final : public MemoryCopier {
 public:
  // What a copy has, and what ends it sooner; must outlive this.
  struct Limits {
    int64_t timeout_ms;
    const std::atomic<bool>& aborted;
  };
  GpuInPlace(std::shared_ptr<const CudaDevice> device, const Limits& limits)
      : device_(std::move(device)), limits_(limits) {}
  GpuInPlace(const GpuInPlace&) = delete;
  GpuInPlace& operator=(const GpuInPlace&) = delete;
  ~GpuInPlace() override;

  // By the GPU, beside whatever its other streams do. Errors: kUnhandledCudaError, kTimeout, kInvalidUsage when aborted.
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override;
  // Once these are done: what came for those of which this is the copier is what the GPU reads from now on.
  Status received(std::span<const Transfer> transfers) const;
  // In a forked child, which has no GPU.
  void abandon() { stream_ = nullptr; }

 private:
  const std::shared_ptr<const CudaDevice> device_;
  const Limits limits_;
  CudaStream stream_ = nullptr;
};

}  // namespace horing
