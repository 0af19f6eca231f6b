#pragma once
// The host's operations on a GPU for messages that are not staged as a whole (comm/gpu/staged_pieces.h): copies, and the ordering of
// adapters' writes in place.
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
  // `aborted` ends copies early. It and `buffers` must outlive this object.
  GpuInPlace(std::shared_ptr<const CudaDevice> device, const std::atomic<bool>& aborted,
             BounceBuffers& buffers)
      : device_(std::move(device)), aborted_(aborted), buffers_(buffers) {}
  GpuInPlace(const GpuInPlace&) = delete;
  GpuInPlace& operator=(const GpuInPlace&) = delete;

  // Copies on the GPU, concurrently with its other streams. Errors: kUnhandledCudaError, kTimeout, kInvalidUsage when aborted.
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
  // Call after these transfers: from now on the GPU reads the data that the transfers of this copier received.
  Status received(std::span<const Transfer> transfers) const;

 private:
  const std::shared_ptr<const CudaDevice> device_;
  const std::atomic<bool>& aborted_;
  BounceBuffers& buffers_;
};

}  // namespace horing
