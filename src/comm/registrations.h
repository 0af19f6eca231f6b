#pragma once
// Buffers that a caller registered with a communicator: handles that are given out and come back once.
#include <cstdint>
#include <mutex>
#include <set>
#include <span>

#include "base/auth.h"
#include "base/status.h"

namespace horing {

inline constexpr size_t kMaxRegistrations = 65536;  // of one communicator

// Thread safe. A handle is a random number, never dereferenced: a stale one, or one of another communicator, is found out.
class Registrations {
 public:
  // A new handle, not null.
  Result<void*> add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (live_.size() >= kMaxRegistrations)
      return makeStatus(Code::kInvalidUsage, "%zu buffers are registered; that is the limit", live_.size());
    uintptr_t handle = 0;
    while (handle == 0 || !live_.insert(handle).second)
      randomBytes(std::as_writable_bytes(std::span(&handle, 1)));
    return reinterpret_cast<void*>(handle);
  }
  Status remove(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (live_.erase(reinterpret_cast<uintptr_t>(handle)) == 1) return {};
    return makeStatus(Code::kInvalidArgument,
                      "handle %p is not a live registration of this communicator: expected what "
                      "horingCommRegister gave, once",
                      handle);
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<uintptr_t> live_;
};

}  // namespace horing
