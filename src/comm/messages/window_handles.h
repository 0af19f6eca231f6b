#pragma once
// The handles of the windows that ranks registered with a communicator.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/auth.h"
#include "base/status.h"

namespace horing {

// Where the GPU of this rank writes into a window in memory of GPUs. A value.
struct PartsOnGpus {
  std::vector<std::byte*>
      begins{};  // by rank; empty: the window is not there, or some rank does not reach all parts
  std::shared_ptr<const void> keeper{};  // while it is used, they stay; GpuWindows closes them
};

// A value.
struct Window {
  uint64_t number = 0;  // the same on every rank, from 1
  std::byte* memory = nullptr;
  std::vector<uint64_t> bytes{};  // by rank; 0: ranks cannot put into this one's memory
  PartsOnGpus on_gpus{};
  // Whether ranks can put into the memory of every rank.
  bool isWhole() const { return std::ranges::find(bytes, 0) == bytes.end(); }
};

inline constexpr size_t kMaxWindows = 65536;  // of one communicator

// Thread safe. A handle is a random number, never dereferenced: a stale or foreign handle is detected.
class WindowHandles {
 public:
  // Returns a new handle, not null.
  void* add(Window window) {
    const std::lock_guard lock(mutex_);
    uint64_t handle = 0;
    while (handle == 0 || live_.contains(handle)) randomBytes(std::as_writable_bytes(std::span(&handle, 1)));
    live_.emplace(handle, std::make_shared<const Window>(std::move(window)));
    return reinterpret_cast<void*>(static_cast<uintptr_t>(handle));
  }
  Result<std::shared_ptr<const Window>> find(const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
    if (found != live_.end()) return found->second;
    return makeStatus(Code::kInvalidArgument,
                      "%p is not a window of this communicator: expected what horingCommWindowRegister gave, "
                      "before horingCommWindowDeregister, or horingCommSuspend",
                      handle);
  }
  // Returns the removed window.
  Result<std::shared_ptr<const Window>> remove(const void* handle) {
    HORING_ASSIGN(std::shared_ptr<const Window> found, find(handle));
    const std::lock_guard lock(mutex_);
    live_.erase(reinterpret_cast<uintptr_t>(handle));
    return found;
  }
  std::vector<const void*> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<const void*> handles;
    for (const auto& [handle, window] : live_)
      handles.push_back(reinterpret_cast<const void*>(static_cast<uintptr_t>(handle)));
    return handles;
  }
  bool isFull() const {
    const std::lock_guard lock(mutex_);
    return live_.size() >= kMaxWindows;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Window>> live_;  // by handle
};

}  // namespace horing
