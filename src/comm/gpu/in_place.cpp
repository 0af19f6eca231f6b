#include "comm/gpu/in_place.h"

#include <algorithm>

#include "cuda/dmabuf.h"
#include "cuda/outside_of_graphs.h"

namespace horing {

GpuInPlace::~GpuInPlace() {
  if (!stream_) return;
  const CudaDevice::Current current(*device_);
  device_->api().stream_destroy(stream_);
}

Status GpuInPlace::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return {};
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  if (!stream_) HORING_TRY(device_->makeStream(stream_));
  HORING_TRY(api.check(api.copy(cudaAddress(to), cudaAddress(from), bytes, stream_),
                       "copying between GPU and host"));
  const auto news = [this] {
    return limits_.aborted.load(std::memory_order_relaxed)
               ? makeStatus(Code::kInvalidUsage, "the communicator was aborted")
               : Status();
  };
  const SteadyClock clock;
  HORING_TRY(device_->synchronize(stream_, news, Deadline::after(clock, limits_.timeout_ms)));
  return buffers_.driverReturned();
}

Status GpuInPlace::received(std::span<const Transfer> transfers) const {
  const bool any = std::any_of(transfers.begin(), transfers.end(), [this](const Transfer& transfer) {
    return transfer.copier == this && transfer.direction == Transfer::Direction::kReceive;
  });
  if (!any) return {};
  HORING_TRY(flushAdapterWrites(*device_));
  return buffers_.driverReturned();
}

}  // namespace horing
