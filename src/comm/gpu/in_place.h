#pragma once
// What the host needs of a GPU for messages that are not staged as a whole (comm/gpu/staged_pieces.h): copies, and the order of what adapters
// write in place.
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "comm/gpu/bounce_buffers.h"
#include "cuda/device.h"
#include "engine/host/point_to_point.h"

namespace horing {

// A resource of one thread.
class GpuInPlace final : public MemoryCopier {
 public:
  // What a copy has, and what ends it sooner; must outlive this.
  struct Limits {
    int64_t timeout_ms;
    const std::atomic<bool>& aborted;
  };
  // `buffers` must outlive this.
  GpuInPlace(std::shared_ptr<const CudaDevice> device, const Limits& limits, BounceBuffers& buffers)
      : device_(std::move(device)), limits_(limits), buffers_(buffers) {}
  GpuInPlace(const GpuInPlace&) = delete;
  GpuInPlace& operator=(const GpuInPlace&) = delete;

  // By the GPU, beside whatever its other streams do. Errors: kUnhandledCudaError, kTimeout, kInvalidUsage when aborted.
  Status copy(std::byte* to, const std::byte* from, size_t bytes, Ends ends) override;
  void begin(size_t flows) override { buffers_.begin(flows); }
  Result<size_t> tryRead(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                         size_t left) override {
    return buffers_.tryRead(flow, to, from, bytes, left);
  }
  Result<size_t> tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                          size_t left) override {
    return buffers_.tryWrite(flow, to, from, bytes, left);
  }
  Result<bool> trySettle(size_t flow) override { return buffers_.trySettle(flow); }
  // Once these are done: what came for those of which this is the copier is what the GPU reads from now on.
  Status received(std::span<const Transfer> transfers) const;

 private:
  const std::shared_ptr<const CudaDevice> device_;
  const Limits limits_;
  BounceBuffers& buffers_;
};

}  // namespace horing
