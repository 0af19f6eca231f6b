#pragma once
// What moving a GPU's memory in place needs of that GPU: copies where a message cannot go in place after all, and the order of what
// adapters write.
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
  GpuInPlace(std::shared_ptr<const CudaDevice> device, int64_t timeout_ms)
      : device_(std::move(device)), timeout_ms_(timeout_ms) {}
  GpuInPlace(const GpuInPlace&) = delete;
  GpuInPlace& operator=(const GpuInPlace&) = delete;
  ~GpuInPlace() override;

  // By the GPU, beside whatever its other streams do. Errors: kUnhandledCudaError, kTimeout.
  Status copy(std::byte* to, const std::byte* from, size_t bytes) override;
  // Once these are done: what came is what the GPU reads from now on.
  Status received(std::span<const Transfer> transfers) const;
  // In a forked child, which has no GPU.
  void abandon() { stream_ = nullptr; }

 private:
  const std::shared_ptr<const CudaDevice> device_;
  const int64_t timeout_ms_;
  CudaStream stream_ = nullptr;
};

}  // namespace horing
