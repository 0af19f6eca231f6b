#include "comm/gpu/stream_release.h"

#include <chrono>

namespace horing {

namespace {
constexpr std::chrono::milliseconds kLookAtThread{200};
constexpr int64_t kAbortedNs = 1'000'000'000;
}  // namespace

void StreamRelease::stop() {
  thread_.end([this] {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  });
}

Status StreamRelease::start() {
  if (thread_.started()) return {};
  return thread_.start("a watch over streams that wait for the host", [this] { serve(); });
}

void StreamRelease::begin(int64_t limit_ms) {
  const std::lock_guard lock(mutex_);
  limit_ns_ = limit_ms * 1'000'000;
  since_ns_.store(clock_.nowNs(), std::memory_order_relaxed);
  changed_.notify_all();
}

Status StreamRelease::outcome() const {
  if (!released_.load(std::memory_order_relaxed)) return {};
  return makeStatus(Code::kTimeout,
                    "a call of the CUDA driver did not return while a stream waited for it: the driver waits "
                    "for that stream itself "
                    "where the program uses a kernel for the first time, or frees memory. Set "
                    "CUDA_MODULE_LOADING=EAGER, and free no "
                    "memory of the GPU while operations are under way");
}

bool StreamRelease::isStuck() {
  const int64_t since_ns = since_ns_.load(std::memory_order_relaxed), now_ns = clock_.nowNs();
  if (since_ns == 0) return false;
  if (!aborted_.load(std::memory_order_relaxed)) return now_ns - since_ns > limit_ns_;
  if (aborted_since_ns_ == 0) aborted_since_ns_ = now_ns;
  return now_ns - aborted_since_ns_ > kAbortedNs;
}

void StreamRelease::serve() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (since_ns_.load(std::memory_order_relaxed) == 0)
      changed_.wait(lock, [this] { return stop_ || since_ns_.load(std::memory_order_relaxed) != 0; });
    else
      changed_.wait_for(lock, kLookAtThread, [this] { return stop_; });
    if (!isStuck()) continue;
    released_.store(true, std::memory_order_relaxed);
    release_();
    return;
  }
}

}  // namespace horing
