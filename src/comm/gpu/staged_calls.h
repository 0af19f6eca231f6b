#pragma once
// Operations on GPU memory, staged through pinned memory and run by the host engine: every collective, over every transport, to every peer.
//
// On a CUDA stream the call enqueues all GPU work at once: copy a piece in, publish that (a number in pinned memory), wait for the host's
// number, copy the result out. The host runs its part later, on a thread of the library. So the caller's thread continues at once, the
// stream is ordered as by a kernel, and the GPU waits only for its own host. If the host fails, it publishes that all is done, so that the
// stream never blocks for ever.
//
// Data that does not fit in a piece is copied while the stream waits: by a kernel on the stream, which needs no driver call, or else by the
// driver.
//
// Two pieces are in flight at a time, so that copies and network overlap. Pinned memory is bounded (comm/gpu/staged_pieces.h), also for
// messages that do not fit in a piece (comm/gpu/bounce_buffers.h).
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "comm/gpu/bounce_buffers.h"
#include "comm/gpu/in_place.h"
#include "comm/gpu/kernel_copier.h"
#include "comm/gpu/one_sided_calls.h"
#include "comm/gpu/staged_pieces.h"
#include "comm/gpu/staging_memory.h"
#include "comm/gpu/stream_release.h"
#include "comm/gpu/stream_words.h"
#include "cuda/device.h"

namespace horing {

// The host's part of one operation, in order.
struct StagedOperation {
  std::vector<HostPart> pieces;
  uint32_t first = 0;            // the number of the first piece; the others follow
  bool has_copy_kernel = false;  // on its stream
  Status failed;                 // not all GPU work could be enqueued: the host only releases the waits
};

// For one communicator and GPU. A resource. enqueue() from one thread, carryOut() and run() from one thread.
class StagedCalls {
 public:
  // Runs a command on host memory.
  using Run = std::function<Status(const Command&)>;

  // The communicator must outlive it. Errors: kUnhandledCudaError.
  static Result<std::unique_ptr<StagedCalls>> create(const std::shared_ptr<const CudaDevice>& device,
                                                     Communicator& communicator);
  // Releases waiting streams, and waits a second for the GPU to finish with the pinned memory, which otherwise is never freed.
  ~StagedCalls();
  StagedCalls(const StagedCalls&) = delete;
  StagedCalls& operator=(const StagedCalls&) = delete;

  int device() const { return device_->number(); }
  const std::shared_ptr<const CudaDevice>& openedDevice() const { return device_; }

  // Makes a transfer move in place.
  void moveInPlace(Transfer& transfer) { transfer.copier = &in_place_; }
  // Enqueues the GPU's part on the first stream, ordered after earlier work and before later work on all of the streams. Operations on
  // several streams are serialised. Writes the host's part to `operation`, also on failure or an exception: the host must then release the
  // waits. Errors: kInvalidUsage for a stream of another GPU; then, and if memory has run out, nothing was enqueued.
  Status enqueue(const Command& command, std::span<const CudaStream> streams, StagedOperation& operation);
  // Runs the host's part when the GPU reaches it: at most until the deadline, or `aborted`. Each copy may take the communicator's timeout.
  Status carryOut(const StagedOperation& operation, const Run& run, Deadline deadline,
                  const std::atomic<bool>& aborted);
  // Runs both parts after earlier work on the default stream; complete on return. Each GPU copy may take `timeout_ms`, or until `aborted`.
  Status run(const Command& command, const Run& run_on_host, int64_t timeout_ms,
             const std::atomic<bool>& aborted);

  // Puts, signals and waits, which go beside all else.
  OneSidedCalls& oneSided() { return one_sided_; }
  // Whether the GPU has reached the host's part, or never will.
  bool hasArrived(const StagedOperation& operation) const {
    return operation.pieces.empty() || !operation.failed.ok() ||
           hasReached(progress_->arrived, operation.first);
  }
  // The error for a stream that is late, with the cause.
  Status lateStream() const;

  // Pinned memory. Any thread.
  uint64_t memoryBytes() const {
    return memory_bytes_.load(std::memory_order_relaxed) + bounce_buffers_.memoryBytes() +
           one_sided_.memoryBytes();
  }
  // In a forked child, which has no GPU: drops everything.
  void abandon();

 private:
  // Counters in pinned memory.
  struct Progress {
    alignas(
        64) std::atomic<uint32_t> arrived;   // the last piece that the GPU has copied in; written by the GPU
    alignas(64) std::atomic<uint32_t> done;  // the last piece that the host has done; written by the host
    // Not 0: a piece failed, or streams were released. Kernels skip requested copies then. Written by the host.
    alignas(64) std::atomic<uint32_t> ended;
  };
  static constexpr size_t kSlots = 2;
  static constexpr int64_t kLongestHoldMs =
      600'000;  // limit for blocked driver calls, even if operations may take longer
  using Slot = std::vector<StagingMemory>;  // the last one is in use; a GPU may still use the earlier ones

  StagedCalls(const std::shared_ptr<const CudaDevice>& device, Communicator& communicator, StagedPlace place,
              const std::atomic<bool>& aborted)
      : communicator_(communicator),
        device_(device),
        release_(aborted, [this] { letGoAll(); }),
        bounce_buffers_(device, place.ranks, [this] { return driverReturned(); }),
        in_place_(device, aborted, bounce_buffers_),
        large_(device, aborted, bounce_buffers_),
        one_sided_(device, communicator),
        place_(place) {
    place_.copier = &large_;
  }
  Status initialise();
  // Null for 0 bytes if nothing was reserved before.
  Result<std::byte*> reserve(Slot& slot, size_t bytes);
  // Whether the copy kernel exists; tries to load it once.
  bool hasCopyKernel();
  Status launchCopyKernel(uint32_t number, CudaStream stream) const;
  Status enqueuePieces(const StagedPieces& pieces, const std::array<std::byte*, kSlots>& staging,
                       CudaStream stream, StagedOperation& operation);
  Status comeBehind(std::span<const CudaStream> others, CudaStream stream) const;
  Status copy(const std::vector<StagedCopy>& copies, CudaStream stream) const;
  Status copyOutWhenDone(const StagedPiece& piece, uint32_t number, CudaStream stream) const;
  Status runOnHost(const HostPart& part, const Run& run) const;
  Status awaitDefaultStream(int64_t timeout_ms, const std::atomic<bool>& aborted) const;
  Status awaitArrival(uint32_t number, Deadline deadline, const std::atomic<bool>& aborted);
  Status carryOutPieces(const StagedOperation& operation, const Run& run, Deadline deadline,
                        const std::atomic<bool>& aborted);
  // Error: streams were released meanwhile, so the caller's buffers are not the host's any more.
  Status driverReturned();
  // Releases all waits enqueued so far. Any thread.
  void letGoAll();

  Communicator& communicator_;
  const std::shared_ptr<const CudaDevice> device_;
  StreamRelease release_;
  BounceBuffers bounce_buffers_;  // for both copiers: a flow may have messages of both
  GpuInPlace in_place_;
  GpuInPlace large_;  // for data that does not fit in a piece and that no adapter moves
  OneSidedCalls one_sided_;
  StagedPlace place_;
  bool may_have_kernel_ = false;  // whether to try to load it; used by enqueue() only
  std::unique_ptr<KernelCopier> kernel_copier_;
  PinnedMemory progress_memory_;
  Progress* progress_ = nullptr;
  CudaEvent last_ = nullptr;        // behind all enqueued work
  std::atomic<uint32_t> next_ = 1;  // number of the next piece; written by enqueue() only
  std::array<Slot, kSlots> slots_;
  Slot blocking_slot_;  // used by run(), while the others are in flight
  std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
