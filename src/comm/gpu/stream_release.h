#pragma once
// Releases CUDA streams that wait for a thread of the library when that thread is blocked in the driver.
//
// The driver may block a call until the GPU is idle: it loads a kernel at first use, or frees memory, under a lock that every other call
// takes. If a stream waits for a thread in such a call, both would wait for ever. The thread of this class never calls the driver.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/service_thread.h"
#include "base/status.h"

namespace horing {

// For one communicator. A resource. One thread takes steps, between begin() and end(); another calls `release`, at most once, and only
// during a step.
class StreamRelease {
 public:
  StreamRelease(const std::atomic<bool>& aborted, std::function<void()> release)
      : aborted_(aborted), release_(std::move(release)) {}
  ~StreamRelease() { stop(); }
  StreamRelease(const StreamRelease&) = delete;
  StreamRelease& operator=(const StreamRelease&) = delete;

  // Call before the first step. Error: the thread could not be started.
  Status start();
  // `release` is not called any more.
  void stop();
  // `limit_ms`: how long each step may take until end(); when `aborted`, a second.
  void begin(int64_t limit_ms);
  // Ends a step and begins the next, if a step is in progress.
  void step() {
    if (since_ns_.load(std::memory_order_relaxed) != 0)
      since_ns_.store(clock_.nowNs(), std::memory_order_relaxed);
  }
  void end() { since_ns_.store(0, std::memory_order_relaxed); }
  // kTimeout: the streams were released.
  Status outcome() const;

 private:
  void serve();
  bool isStuck();

  const SteadyClock clock_;
  const std::atomic<bool>& aborted_;
  const std::function<void()> release_;
  std::atomic<int64_t> since_ns_{0};  // 0: no step; no other data depends on it
  int64_t limit_ns_ = 0;              // under mutex_
  std::atomic<bool> released_{false};
  int64_t aborted_since_ns_ = 0;  // used by the thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  ServiceThread thread_;
};

}  // namespace horing
