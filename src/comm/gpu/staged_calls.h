#pragma once
// Operations on a GPU's memory, carried through pinned memory of the host by the host engine: every collective, over every
// transport, to every peer.
//
// On a stream of CUDA everything that the GPU has to do is put there when the operation is called: copy a piece in, say so (a
// number in pinned memory), wait until the host says that it has done its part (another number), copy the result out. The host
// does its part later, on a thread of the library. So the caller's thread goes on at once, the stream is as ordered as by any
// kernel, and nothing of the GPU waits for anything but its own host. When the host fails, it says that all is done: a stream is
// never left waiting.
//
// What has no room in a piece is copied while the stream waits: by a kernel there, which takes no call of the driver, or else by the
// driver.
//
// Two pieces are under way at a time, so that copies and network overlap. So pinned memory is bounded (comm/gpu/staged_pieces.h), and what
// the messages take that no piece has room for is, too (comm/gpu/bounce_buffers.h).
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
#include "comm/gpu/staged_pieces.h"
#include "comm/gpu/staging_memory.h"
#include "comm/gpu/stream_release.h"
#include "cuda/device.h"

namespace horing {

// What the host has to do for one operation, in order.
struct StagedOperation {
  std::vector<HostPart> pieces;
  uint32_t first = 0;            // the number of the first piece; the others follow
  bool has_copy_kernel = false;  // on its stream
  Status failed;                 // the GPU could not be told all of it: the host only lets go what waits
};

// Of one communicator and GPU. A resource. enqueue() from one thread, carryOut() and run() from one other or the same.
class StagedCalls {
 public:
  // Carries a command on the host's memory out.
  using Run = std::function<Status(const Command&)>;

  // The communicator must outlive it. Errors: kUnhandledCudaError.
  static Result<std::unique_ptr<StagedCalls>> create(const std::shared_ptr<const CudaDevice>& device,
                                                     Communicator& communicator);
  // Lets go what still waits, and waits a second for the GPU to be done with the pinned memory, which otherwise is never freed.
  ~StagedCalls();
  StagedCalls(const StagedCalls&) = delete;
  StagedCalls& operator=(const StagedCalls&) = delete;

  int device() const { return device_->number(); }
  const std::shared_ptr<const CudaDevice>& openedDevice() const { return device_; }

  // Makes a transfer one in place.
  void moveInPlace(Transfer& transfer) { transfer.copier = &in_place_; }
  // Puts the GPU's part on the first stream, behind what is on all of them, and before what comes there later. Operations of several
  // streams come one after the other. Writes what the host has to do, also where it fails or throws: then the host must let go what
  // waits. Errors: kInvalidUsage for a stream that is not this GPU's; then nothing was put there, as where there is no memory.
  Status enqueue(const Command& command, std::span<const CudaStream> streams, StagedOperation& operation);
  // The host's part, when the GPU comes to it: no later than the deadline, or `aborted`.
  Status carryOut(const StagedOperation& operation, const Run& run, Deadline deadline,
                  const std::atomic<bool>& aborted);
  // Both parts, after what the default stream was told before: complete on return. The GPU has `timeout_ms` for each copy, or until
  // `aborted`.
  Status run(const Command& command, const Run& run_on_host, int64_t timeout_ms,
             const std::atomic<bool>& aborted);

  // Pinned memory. Any thread.
  uint64_t memoryBytes() const {
    return memory_bytes_.load(std::memory_order_relaxed) + bounce_buffers_.memoryBytes();
  }
  // In a forked child, which has no GPU: drops everything.
  void abandon();

 private:
  // In pinned memory.
  struct Progress {
    alignas(
        64) std::atomic<uint32_t> arrived;   // the last piece that the GPU has copied in; written by the GPU
    alignas(64) std::atomic<uint32_t> done;  // the last piece that the host has done; written by the host
    // Not 0: a piece failed, or streams were let go. What kernels were asked to copy is not copied any more. Written by the host.
    alignas(64) std::atomic<uint32_t> ended;
  };
  static constexpr size_t kSlots = 2;
  static constexpr int64_t kLongestHoldMs = 600'000;  // where operations may take longer, a driver may not
  using Slot = std::vector<StagingMemory>;  // the last one is in use; a GPU may still be at those before

  // `copies`: of messages that could not go in place.
  StagedCalls(const std::shared_ptr<const CudaDevice>& device, Communicator& communicator, StagedPlace place,
              const GpuInPlace::Limits& copies)
      : communicator_(communicator),
        device_(device),
        release_(2 * std::min(copies.timeout_ms, kLongestHoldMs), copies.aborted, [this] { letGoAll(); }),
        bounce_buffers_(device, place.ranks, copies.timeout_ms, [this] { return driverReturned(); }),
        in_place_(device, copies, bounce_buffers_),
        large_(device, copies, bounce_buffers_),
        place_(place) {
    place_.copier = &large_;
  }
  Status initialise();
  // Null for nothing, where nothing was reserved before.
  Result<std::byte*> reserve(Slot& slot, size_t bytes);
  // For what is copied on streams; tries to make it once.
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
  // A stream that did not come in time, and why.
  Status lateStream() const;
  bool hasReached(const std::atomic<uint32_t>& counter, uint32_t number) const;
  Status carryOutPieces(const StagedOperation& operation, const Run& run, Deadline deadline,
                        const std::atomic<bool>& aborted);
  // Error: streams were let go meanwhile, so what they stand for is not the host's any more.
  Status driverReturned();
  // Streams go on with all that they were told so far. Any thread.
  void letGoAll();

  Communicator& communicator_;
  const std::shared_ptr<const CudaDevice> device_;
  StreamRelease release_;
  BounceBuffers bounce_buffers_;  // of both copiers: a flow may have messages of both
  GpuInPlace in_place_;
  GpuInPlace large_;  // of what has no room in a piece, and which no adapter moves
  StagedPlace place_;
  bool may_have_kernel_ = false;  // as long as there is none; of enqueue() alone
  std::unique_ptr<KernelCopier> kernel_copier_;
  PinnedMemory progress_memory_;
  Progress* progress_ = nullptr;
  CudaEvent last_ = nullptr;        // behind all that was put on streams
  std::atomic<uint32_t> next_ = 1;  // piece; written by enqueue() alone
  std::array<Slot, kSlots> slots_;
  Slot blocking_slot_;  // of run(), while those are under way
  std::atomic<uint64_t> memory_bytes_{0};
};

}  // namespace horing
