#pragma once
// Buffers that the user registered with a communicator, by handle.
#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/auth.h"
#include "base/status.h"
#include "cuda/adapter_memory.h"
#include "transport/lent_memory.h"
#include "transport/transport.h"

namespace horing {

// GPU memory as a region to lend to transports; `found` is borrowed.
inline Region regionOf(uint64_t id, std::byte* begin, size_t bytes, const AdapterMemory& found) {
  return {id, begin, bytes, MemoryOf::kGpu, found.by_address, found.dmabuf.get(), found.offset};
}

inline constexpr size_t kMaxRegistrations = 65536;  // of one communicator

// Thread safe. A handle is a random number, never dereferenced: a stale or foreign handle is detected.
class Registrations {
 public:
  // Returns a new handle, not null. `of_gpu`: how devices access GPU memory; nothing: host memory.
  Result<void*> add(std::byte* memory, size_t bytes, std::optional<AdapterMemory> of_gpu = {}) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (live_.size() >= kMaxRegistrations)
      return makeStatus(Code::kInvalidUsage, "%zu buffers are registered; that is the limit", live_.size());
    uint64_t handle = 0;
    while (handle == 0 || live_.contains(handle)) randomBytes(std::as_writable_bytes(std::span(&handle, 1)));
    Registered made{of_gpu ? regionOf(handle, memory, bytes, *of_gpu) : Region{handle, memory, bytes}, {}};
    if (of_gpu) made.dmabuf = std::move(of_gpu->dmabuf);
    live_[handle] = by_address_.emplace(memory, std::move(made));
    largest_ = std::max(largest_, bytes);
    return reinterpret_cast<void*>(static_cast<uintptr_t>(handle));
  }
  // Returns the number of the removed region.
  Result<uint64_t> remove(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == live_.end())
      return makeStatus(Code::kInvalidArgument,
                        "handle %p is not a live registration of this communicator: expected what "
                        "horingCommRegister gave, once",
                        handle);
    const uint64_t id = found->first;
    by_address_.erase(found->second);
    live_.erase(found);
    return id;
  }
  // A region that contains this byte.
  std::optional<Region> find(const std::byte* memory) const {
    std::optional<Region> found;
    withRegion(memory, [&found](const Region& region) { found = region; });
    return found;
  }
  // Runs use(region) on a region that contains this byte, if any. The region cannot be removed before use() has returned, so remove() can
  // undo what use() did. Other registrations wait meanwhile.
  template <typename Use>
  void withRegion(const std::byte* memory, const Use& use) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = by_address_.upper_bound(memory); at != by_address_.begin();) {
      const Region& region = (--at)->second.region;
      const auto offset = static_cast<size_t>(memory - region.begin);
      if (offset < region.bytes) return use(region);
      if (offset >= largest_) return;
    }
  }

 private:
  struct Registered {
    Region region;
    Fd dmabuf;
  };
  using ByAddress = std::multimap<const std::byte*, Registered>;
  mutable std::mutex mutex_;
  ByAddress by_address_;
  std::map<uint64_t, ByAddress::iterator> live_;  // by handle
  size_t largest_ = 0;                            // bytes of the largest region so far
};

}  // namespace horing
