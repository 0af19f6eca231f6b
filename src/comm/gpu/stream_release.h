#pragma once
// Lets go the CUDA streams that wait for a thread of the library when that thread does not come back from the driver.
//
// The driver may keep a call until the GPU has done all that it was told: it loads a kernel that the program uses for the first time, or
// frees memory, under a lock that each other call takes. Where a stream waits for the thread in such a call, neither would ever end.
// This thread never calls the driver.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/service_thread.h"
#include "base/status.h"

namespace horing {

// Of one communicator. A resource. One thread takes steps, between begin() and end(); `release` is called by another, at most once, and only
// while it is at some.
class StreamRelease {
 public:
  // `limit_ms`: how long a step may take; when `aborted`, a second.
  StreamRelease(int64_t limit_ms, const std::atomic<bool>& aborted, std::function<void()> release)
      : limit_ns_(limit_ms * 1'000'000), aborted_(aborted), release_(std::move(release)) {}
  ~StreamRelease() { stop(); }
  StreamRelease(const StreamRelease&) = delete;
  StreamRelease& operator=(const StreamRelease&) = delete;

  // Before the first step. Error: no thread to be had.
  Status start();
  // `release` is not called any more.
  void stop();
  void begin();
  // One ends and the next begins, if any is under way.
  void step() {
    if (since_ns_.load(std::memory_order_relaxed) != 0)
      since_ns_.store(clock_.nowNs(), std::memory_order_relaxed);
  }
  void end() { since_ns_.store(0, std::memory_order_relaxed); }
  // kTimeout: they were let go.
  Status outcome() const;

 private:
  void serve();
  bool isStuck();

  const SteadyClock clock_;
  const int64_t limit_ns_;
  const std::atomic<bool>& aborted_;
  const std::function<void()> release_;
  std::atomic<int64_t> since_ns_{0};  // 0: no step is under way; nothing else is ordered by it
  std::atomic<bool> released_{false};
  int64_t aborted_since_ns_ = 0;  // of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  ServiceThread thread_;
};

}  // namespace horing
