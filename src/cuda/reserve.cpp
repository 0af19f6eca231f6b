#include "cuda/reserve.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "cuda/outside_of_graphs.h"

namespace horing {

namespace {

constexpr unsigned int kHostPortable = 1, kHostDeviceMap = 2;  // from cuda.h
constexpr size_t kPage = 4096;

// Rounds up by at most an eighth (some pages for small sizes), so that there are few sizes and the next communicator finds a match.
size_t sizeFor(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, kPage);
  return (bytes + step - 1) / step * step;
}

Result<void*> allocate(const CudaDevice& device, CudaReserve::Kind kind, size_t bytes, size_t size) {
  const CudaApi& api = device.api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(device);
  if (kind == CudaReserve::Kind::kGpu) {
    CudaAddress at = 0;
    HORING_TRY(api.check(api.memory_allocate(&at, size),
                         formatString("allocating %zu bytes on GPU %d", bytes, device.number()).c_str()));
    return reinterpret_cast<void*>(at);
  }
  void* at = nullptr;
  HORING_TRY(api.check(
      api.host_allocate(&at, size, kHostPortable | kHostDeviceMap),
      formatString("allocating %zu bytes of pinned host memory for GPU %d", bytes, device.number()).c_str()));
  return at;
}

}  // namespace

CudaReserve& CudaReserve::ofProcess() {
  // Never destroyed, since calls may come during exit; and made without allocation, since destructors use it.
  alignas(CudaReserve) static std::byte place[sizeof(CudaReserve)];
  static auto* const reserve = new (place) CudaReserve;
  return *reserve;
}

Result<void*> CudaReserve::take(const std::shared_ptr<const CudaDevice>& device, Kind kind, size_t bytes) {
  const size_t size = sizeFor(bytes);
  {
    const std::lock_guard lock(mutex_);
    ++users_;
    if (const auto found = pieces_.find({device->number(), kind, size}); found != pieces_.end()) {
      void* const at = found->second.at;
      pieces_.erase(found);
      return at;
    }
  }
  // This may wait for a GPU; other threads must not be blocked meanwhile.
  Result<void*> made = allocate(*device, kind, bytes, size);
  if (!made.ok()) leave();
  return made;
}

void CudaReserve::giveBack(std::shared_ptr<const CudaDevice> device, Kind kind, void* at,
                           size_t bytes) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const Name name{device->number(), kind, sizeFor(bytes)};
    pieces_.emplace(name, Piece{std::move(device), at});
  } catch (const std::bad_alloc&) {
    // The memory leaks then.
  }
  leave();
}

void CudaReserve::enter(std::shared_ptr<const void> what) {
  const std::lock_guard lock(mutex_);
  if (std::find(others_.begin(), others_.end(), what) == others_.end()) others_.push_back(std::move(what));
  ++users_;
}

// New users wait until the last user has freed everything, and launch no kernel before that.
void CudaReserve::leave() {
  const std::lock_guard lock(mutex_);
  if (--users_ == 0) freeAll();
}

// Frees nothing: freeing might wait for a blocked stream.
void CudaReserve::forget() {
  const std::lock_guard lock(mutex_);
  --users_;
}

void CudaReserve::freeAll() {
  for (const auto& [name, piece] : pieces_) {
    const CudaApi& api = piece.device->api();
    const OutsideOfGraphs outside(api);
    const CudaDevice::Current current(*piece.device);
    if (std::get<Kind>(name) == Kind::kGpu)
      api.memory_free(cudaAddress(piece.at));
    else
      api.host_free(piece.at);
  }
  pieces_.clear();
  others_.clear();
}

CudaReserve::Kept CudaReserve::kept() const {
  const std::lock_guard lock(mutex_);
  Kept kept;
  for (const auto& [name, piece] : pieces_)
    (std::get<Kind>(name) == Kind::kGpu ? kept.of_gpus : kept.pinned) += std::get<size_t>(name);
  return kept;
}

}  // namespace horing
