#pragma once
// Copies by driver calls on streams of the library: they occupy no SM, but the driver may delay them while the caller's stream waits
// (comm/gpu/stream_release.h).
#include <memory>
#include <vector>

#include "comm/gpu/gpu_copier.h"
#include "cuda/device.h"

namespace horing {

// A resource.
class DriverCopier final : public GpuCopier {
 public:
  explicit DriverCopier(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  ~DriverCopier() override;
  DriverCopier(const DriverCopier&) = delete;
  DriverCopier& operator=(const DriverCopier&) = delete;

  // Creates the streams, once, before the first copy.
  Status prepare();
  // Errors: kUnhandledCudaError.
  Result<uint64_t> start(CudaAddress to, CudaAddress from, size_t bytes, Direction direction) override;
  Result<bool> isDone(uint64_t copy) override;
  bool isCopying() const override;
  bool takesAnyMemory() const override { return true; }
  // In a forked child, which has no GPU: drops everything.
  void abandon();

 private:
  Result<CudaEvent> spareEvent();

  const std::shared_ptr<const CudaDevice> device_;
  // A stream for each direction: a GPU copies both ways at once.
  CudaStream reads_ = nullptr;
  CudaStream writes_ = nullptr;
  std::vector<CudaEvent> events_;
  std::vector<CudaEvent> spare_;  // unused events
};

}  // namespace horing
