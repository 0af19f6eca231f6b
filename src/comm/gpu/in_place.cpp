#include "comm/gpu/in_place.h"

#include <algorithm>

#include "cuda/adapter_memory.h"

namespace horing {

Status GpuInPlace::copy(std::byte* to, const std::byte* from, size_t bytes, Ends ends) {
  if (bytes == 0) return {};
  return buffers_.copy(to, from, bytes, ends, [this] {
    return aborted_.load(std::memory_order_relaxed)
               ? makeStatus(Code::kInvalidUsage, "the communicator was aborted")
               : Status();
  });
}

Status GpuInPlace::received(std::span<const Transfer> transfers) const {
  const bool any = std::any_of(transfers.begin(), transfers.end(), [this](const Transfer& transfer) {
    return transfer.copier == this && transfer.direction() == Transfer::Direction::kReceive;
  });
  if (!any) return {};
  HORING_TRY(flushAdapterWrites(*device_));
  return buffers_.driverReturned();
}

}  // namespace horing
