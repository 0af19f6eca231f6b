#pragma once
// Pinned memory of the host between a GPU's memory and slots, for messages: the GPU copies between it and its own memory in large pieces,
// beside whatever the host does, and the host copies between it and slots.
//
// Each flow (engine/host/memory_copier.h) has two buffers, so that the GPU is at one while the host is at the other, and no other flow
// ever has these. So a flow waits for its own peer and for copies alone, which wait for nothing. If flows took buffers from each other,
// one whose peer takes nothing for now, or sends nothing, could keep what another flow needs, and with that the very message for which
// that peer waits. What the buffers take together is bounded all the same: they are the smaller the more flows a group has.
#include <array>
#include <atomic>
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

// Of one communicator and GPU. A resource of one thread, but for reserve() and memoryBytes().
class BounceBuffers {
 public:
  // A copy of so much takes longer than it takes to ask for it, and the next is asked for in time.
  static constexpr size_t kMostBytes = 512 << 10;  // of a buffer
  static constexpr size_t kLeastBytes = 16 << 10;
  static constexpr size_t kPinnedBytes = 4 << 20;  // of all of them, where ranks are not very many
  // Under way at once: two flows with each peer, and two buffers of each.
  static constexpr size_t mostCopies(int ranks) { return 4 * static_cast<size_t>(ranks); }

  // `timeout_ms`: what each copy has.
  // `returned`: asked when something of a copy was done, by a call of the driver perhaps; its error ends the operation
  // (comm/gpu/stream_release.h).
  BounceBuffers(
      std::shared_ptr<const CudaDevice> device, int ranks, int64_t timeout_ms,
      std::function<Status()> returned = [] { return Status(); });
  // Where the GPU may still be at the memory, that is never freed.
  ~BounceBuffers();
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;

  // Makes the memory, once. Any thread; before begin(), and before the caller's stream is told to wait for this operation: a driver that
  // pins memory, or gives it back, may wait for streams. So it is made for as many flows as there can be, and is not given back sooner than
  // all else.
  Status reserve();
  // Who copies from now on, when nothing is under way; null: the driver.
  void use(GpuCopier* copier) { copier_ = copier ? copier : &driver_; }
  // See MemoryCopier. Errors: kUnhandledCudaError, kTimeout; that of `news`.
  Status copy(std::byte* to, const std::byte* from, size_t bytes, MemoryCopier::Ends ends,
              const std::function<Status()>& news);
  void begin(size_t flows);
  Result<size_t> tryRead(size_t flow, std::byte* to, const std::byte* from, size_t bytes, size_t left);
  Result<size_t> tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes, size_t left);
  Result<bool> trySettle(size_t flow);
  // Of a group that failed: waits until no copy is under way, a second at most.
  void awaitCopies() const;

  Status driverReturned() const { return returned_(); }

  // Any thread.
  uint64_t memoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  // In a forked child, which has no GPU: drops everything.
  void abandon();

 private:
  struct Buffer {
    std::byte* host = nullptr;
    CudaAddress gpu = 0;           // where the bytes are from, or go, in the GPU's memory
    size_t bytes = 0;              // of a message: read, or written but not handed over to the GPU
    std::optional<uint64_t> copy;  // perhaps under way
    int64_t since_ns = 0;          // when it was asked for

    CudaAddress end() const { return gpu + bytes; }
    bool has(CudaAddress at) const { return at >= gpu && at < end(); }
  };
  struct Flow {
    std::array<Buffer, 2> buffers;  // the host is at the first
    bool writes = false;            // into the GPU's memory
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
  const int64_t timeout_ns_;
  const std::function<Status()> returned_;
  const SteadyClock clock_;
  std::mutex mutex_;  // of what reserve() makes
  PinnedMemory memory_;
  DriverCopier driver_;
  GpuCopier* copier_ = &driver_;
  std::vector<Flow> flows_;  // as many as any group had
  size_t buffer_bytes_ = 0;
  std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
