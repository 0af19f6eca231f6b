#pragma once
// Puts, signals and waits on CUDA streams. Each is a mark in its stream (comm/gpu/stream_marks.h): when the stream has come there, the host
// carries the operation out, beside all others, and the stream goes on when it is complete.
//
// Data in memory that only a GPU can access are copied on the stream into pinned memory, in two buffers that the puts of one stream use in
// turn, and which the first of them pins. A put that is larger than one becomes a put of each part; the last one signals. No stream waits for
// the buffers of another: that one may wait for a rank that waits for this one. Data for a window in memory of a GPU are copied there on the
// stream, and the host only signals.
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "comm/calls/command.h"
#include "comm/communicator.h"
#include "comm/gpu/gpu_windows.h"
#include "comm/gpu/staging_memory.h"
#include "comm/gpu/stream_marks.h"

namespace horing {

// What the host carries out when the stream has come to the mark; then it ends the mark.
struct OneSidedPart {
  Command command;  // on host memory
  StreamMark mark;
};

// For one communicator and GPU. A resource; enqueue() from one thread.
class OneSidedCalls {
 public:
  // Takes a part over. May fail, also by an exception, and then has not.
  using Add = std::function<Status(OneSidedPart&&)>;
  static constexpr size_t kPartBytes = 4 << 20;

  // The communicator must outlive it.
  OneSidedCalls(std::shared_ptr<const CudaDevice> device, Communicator& communicator)
      : communicator_(communicator),
        device_(std::move(device)),
        marks_(std::make_shared<StreamMarks>(device_)) {}
  // Lets waiting streams go on, and waits a second for them to be done with the pinned memory and with the parts of windows, which otherwise
  // are never freed, nor closed.
  ~OneSidedCalls();
  OneSidedCalls(const OneSidedCalls&) = delete;
  OneSidedCalls& operator=(const OneSidedCalls&) = delete;

  // Once, before all else, when no stream of this rank waits for another. Error: no pinned memory.
  Status reserve() { return marks_->reserve(); }
  // kInvalidUsage: the stream is not one of this GPU, or records a graph.
  Status check(CudaStream stream) const;
  // Enqueues the GPU's part of the command, whose transfers name the memory that only a GPU can access. `behind`: the end of that mark, which
  // may be on another stream. Returns the last mark. After an error earlier parts may have been taken over, and the other ranks wait for the
  // rest.
  Result<StreamMark> enqueue(const Command& command, CudaStream stream,
                             const std::optional<StreamMark>& behind, const Add& add);

  // Lets the stream, which check() has found well, wait until the result goes. Any thread. Errors: of StreamHold::begin().
  Result<std::shared_ptr<const StreamHold>> hold(CudaStream stream);

  bool hasArrived(const StreamMark& mark) const { return marks_->hasArrived(mark); }
  // Lets the stream go on; once for each part.
  void end(const StreamMark& mark) noexcept { marks_->end(mark); }
  // Lets all streams go on. Any thread.
  void endAll() const noexcept { marks_->endAll(); }
  // The windows into which it copies.
  GpuWindows& windows() { return windows_; }
  // Closes windows that nobody uses any more, once no copy is under way and no stream waits: the driver may wait for streams. Waits for that
  // until the deadline; `awaits_others`: also for other processes to close this rank's parts, unless the communicator has an error, and logs
  // what is left. On the thread of enqueue(), without locks.
  void closeUnusedWindows(const Deadline& deadline, bool awaits_others);
  // Pinned memory. Any thread.
  uint64_t memoryBytes() const {
    return marks_->memoryBytes() + buffer_bytes_.load(std::memory_order_relaxed);
  }
  // Never frees the pinned memory, nor closes windows: a GPU may still use them, or, in a forked child, there is none.
  void abandon();

 private:
  struct Buffer {
    std::optional<StagingMemory> memory{};
    std::optional<StreamMark> user{};  // the last one
  };
  // Of one stream until all its puts have ended, then of any.
  struct Buffers {
    CudaStream stream;
    std::array<Buffer, 2> both{};
    size_t next = 0;
  };
  Result<StreamMark> enqueueAll(const Command& command, CudaStream stream, const Add& add);
  Result<StreamMark> enqueueTogether(std::span<const Transfer> transfers, CudaStream stream, const Add& add);
  Result<StreamMark> enqueuePart(Command part, CudaStream stream, const Add& add);
  Result<StreamMark> enqueueParts(const Transfer& put, CudaStream stream, const Add& add);
  Result<StreamMark> enqueueCopied(const Transfer& part, CudaStream stream, const Add& add);
  Status comeBehind(const std::optional<StreamMark>& mark, CudaStream stream);
  bool awaitOthers(const Deadline& deadline);
  void warnOfLeft(const char* what) const;
  Buffers& buffersFor(CudaStream stream);

  Communicator& communicator_;
  const std::shared_ptr<const CudaDevice> device_;
  std::list<Buffers> buffers_;
  std::atomic<uint64_t> buffer_bytes_{0};
  const std::shared_ptr<StreamMarks> marks_;
  GpuWindows windows_;
};

}  // namespace horing
