#pragma once
// Pinned bounce buffers between GPU memory and slots, for messages: the GPU copies between its memory and the buffers in large pieces,
// concurrently with the host, which copies between the buffers and slots.
//
// Each flow (engine/host/memory_copier.h) has two buffers of its own, so that the GPU uses one while the host uses the other. So a flow
// waits only for its own peer and for copies, and copies wait for nothing. If flows shared buffers, a flow whose peer is not ready could
// hold a buffer that another flow needs to send the message for which that peer waits: a deadlock. Total memory is bounded: the more flows
// a group has, the smaller the buffers.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "comm/gpu/driver_copier.h"
#include "cuda/device.h"
#include "engine/host/memory_copier.h"

namespace horing {

// How long a wait for the GPU yields the core before it sleeps between polls, and how long it sleeps.
inline constexpr int64_t kGpuYieldNs = 200'000;
inline constexpr std::chrono::microseconds kGpuNap{50};
// How long an object that ends waits for its last copies.
inline constexpr int64_t kLastCopiesMs = 1000;

// For one communicator and GPU. A resource of one thread, except reserve() and memoryBytes().
class BounceBuffers {
 public:
  // A copy of this size takes longer than its launch, so launches keep up.
  static constexpr size_t kMostBytes = 512 << 10;  // per buffer
  static constexpr size_t kLeastBytes = 16 << 10;
  static constexpr size_t kPinnedBytes = 4 << 20;  // in total, unless there are very many ranks
  // In flight at once: two flows with each peer, two buffers per flow.
  static constexpr size_t mostCopies(int ranks) { return 4 * static_cast<size_t>(ranks); }

  // `returned`: called after each step of a copy, which may have been a driver call; its error ends the operation
  // (comm/gpu/stream_release.h).
  BounceBuffers(
      std::shared_ptr<const CudaDevice> device, int ranks,
      std::function<Status()> returned = [] { return Status(); });
  // Memory that the GPU may still access is never freed.
  ~BounceBuffers();
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;

  // Allocates the memory, once. Any thread; before begin(), and before the caller's stream waits for this operation: a driver that pins or
  // frees memory may wait for streams. So the memory is allocated for the maximum number of flows, and freed last.
  Status reserve();
  // For copies from now on, while nothing is in flight: the copier (null: the driver), and how long each may take.
  void use(GpuCopier* copier, int64_t timeout_ms) {
    copier_ = copier ? copier : &driver_;
    timeout_ns_ = timeout_ms * 1'000'000;
  }
  // See MemoryCopier. Errors: kUnhandledCudaError, kTimeout; the error of `news`.
  Status copy(std::byte* to, const std::byte* from, size_t bytes, MemoryCopier::Ends ends,
              const std::function<Status()>& news);
  void begin(size_t flows);
  Result<size_t> tryRead(size_t flow, std::byte* to, const std::byte* from, size_t bytes, size_t left);
  Result<size_t> tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes, size_t left);
  Result<bool> trySettle(size_t flow);
  // For a failed group: waits until no copy is in flight, at most a second.
  void awaitCopies() const;

  Status driverReturned() const { return returned_(); }

  // Any thread.
  uint64_t memoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  // In a forked child, which has no GPU: drops everything.
  void abandon();

 private:
  struct Buffer {
    std::byte* host = nullptr;
    CudaAddress gpu = 0;           // source or destination in GPU memory
    size_t bytes = 0;              // of a message: read ahead, or written but not yet handed to the GPU
    std::optional<uint64_t> copy;  // perhaps in flight
    int64_t since_ns = 0;          // when it was started

    CudaAddress end() const { return gpu + bytes; }
    bool has(CudaAddress at) const { return at >= gpu && at < end(); }
  };
  struct Flow {
    std::array<Buffer, 2> buffers;  // the host uses the first
    bool writes = false;            // direction: into GPU memory
  };

  Status fill(Buffer& buffer, CudaAddress from, CudaAddress end);
  Status handOver(Flow& flow);
  Status startCopy(Buffer& buffer, CudaAddress to, CudaAddress from, size_t bytes,
                   GpuCopier::Direction direction);
  Result<bool> hasCopied(Buffer& buffer);
  Status copyNow(CudaAddress to, CudaAddress from, size_t bytes, GpuCopier::Direction direction,
                 const std::function<Status()>& news);

  const std::shared_ptr<const CudaDevice> device_;
  const size_t pinned_bytes_;
  const std::function<Status()> returned_;
  const SteadyClock clock_;
  std::mutex mutex_;  // for reserve()
  PinnedMemory memory_;
  DriverCopier driver_;
  GpuCopier* copier_ = &driver_;
  int64_t timeout_ns_ = 0;
  std::vector<Flow> flows_;  // as many as the largest group had
  size_t buffer_bytes_ = 0;
  std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
