#include "comm/gpu/driver_copier.h"

#include "base/check.h"
#include "cuda/outside_of_graphs.h"

namespace horing {

DriverCopier::~DriverCopier() {
  if (!reads_ && !writes_) return;
  const CudaApi& api = device_->api();
  const CudaDevice::Current current(*device_);
  for (const CudaEvent event : events_) api.event_destroy(event);
  for (const CudaStream stream : {reads_, writes_})
    if (stream) api.stream_destroy(stream);
}

void DriverCopier::abandon() {
  reads_ = writes_ = nullptr;
}

Status DriverCopier::prepare() {
  for (CudaStream* const stream : {&reads_, &writes_})
    if (!*stream) HORING_TRY(device_->makeStream(*stream));
  return {};
}

Result<CudaEvent> DriverCopier::spareEvent() {
  if (spare_.empty()) {
    spare_.reserve(events_.size() + 1);
    events_.reserve(events_.size() + 1);
    CudaEvent event = nullptr;
    HORING_TRY(device_->makeEvent(event));
    events_.push_back(event);
    spare_.push_back(event);
  }
  return spare_.back();
}

Result<uint64_t> DriverCopier::start(CudaAddress to, CudaAddress from, size_t bytes, Direction direction) {
  const CudaStream stream = direction == Direction::kFromGpu ? reads_ : writes_;
  HORING_CHECK(stream);
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  HORING_ASSIGN(const CudaEvent copied, spareEvent());
  HORING_TRY(api.check(api.copy(to, from, bytes, stream), "copying between GPU and host"));
  HORING_TRY(api.check(api.event_record(copied, stream), "recording an event"));
  spare_.pop_back();
  return reinterpret_cast<uintptr_t>(copied);
}

Result<bool> DriverCopier::isDone(uint64_t copy) {
  const auto copied = reinterpret_cast<CudaEvent>(static_cast<uintptr_t>(copy));
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  const int state = api.event_query(copied);
  if (state == CudaApi::kNotReady) return false;
  HORING_TRY(api.check(state, "copying between GPU and host"));
  spare_.push_back(copied);
  return true;
}

// Queries the streams: a failed copy may have no event.
bool DriverCopier::isCopying() const {
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  const auto is_busy = [&](CudaStream stream) {
    return stream && api.stream_query(stream) == CudaApi::kNotReady;
  };
  return is_busy(reads_) || is_busy(writes_);
}

}  // namespace horing
