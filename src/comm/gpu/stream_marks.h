#pragma once
// Places in CUDA streams at which a stream tells the host that it has come there, and then waits for the host. Each place is alone: places
// on different streams wait for each other in no way, unlike pieces of staged operations (comm/gpu/staged_calls.h).
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cuda/device.h"

namespace horing {

// A place in a stream. A value.
class StreamMark {
 private:
  friend class StreamMarks;
  // In pinned memory; none of them ever goes back, but for wrapping around.
  struct Words;
  Words* words_ = nullptr;
  CudaAddress address_ = 0;
  uint32_t number_ = 0;
};

// For one communicator and GPU. A resource; any thread. Streams are used by one thread, which has the GPU's context.
class StreamMarks {
 public:
  // settle() or abandon() must be the last call, but for end() of marks that others have (StreamHold).
  explicit StreamMarks(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  StreamMarks(const StreamMarks&) = delete;
  StreamMarks& operator=(const StreamMarks&) = delete;

  // Pins memory for nearly as many marks as a queue has operations at most, once. Call this before any stream waits for another rank, or for
  // a mark: a driver that pins memory may wait for streams. Error: the driver's.
  Status reserve() { return add(kReservedBytes); }
  // A new mark, which end() must follow. Error: no pinned memory, of which it takes more only while more marks are in use.
  Result<StreamMark> take();
  // Enqueues that the stream has come there. Error: the driver's, as below.
  Status tell(const StreamMark& mark, CudaStream stream);
  // Enqueues a wait for end(), once for each mark, on the stream of tell().
  Status awaitEnd(const StreamMark& mark, CudaStream stream);
  // Enqueues the same in front of the next mark of a stream.
  Status comeBehind(const StreamMark& mark, CudaStream stream);
  bool hasArrived(const StreamMark& mark) const;
  // Whether the mark, or a later one in its place, has ended.
  bool hasEnded(const StreamMark& mark) const;
  // Lets the stream go on; once for each mark.
  void end(const StreamMark& mark) noexcept;
  // Lets all streams go on whose marks were taken so far.
  void endAll() const noexcept;

  // Lets all streams go on, and waits a second for them to be past their marks. False: they may still come there, or nobody knows.
  bool settle() const;
  // Waits until the deadline for all streams to be past their marks, with no mark left that end() must follow. False: some are not, or nobody
  // knows. Afterwards no copy before a mark is under way, and no stream waits for one, until the next take().
  bool awaitPast(const Deadline& deadline) const;
  // After an error, the driver's or another: a stream may wait for a mark, and never tell that it is past it.
  void distrust() { is_distrusted_ = true; }
  // Pinned memory.
  uint64_t memoryBytes() const;
  // Never frees the memory.
  void abandon();

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kReservedBytes = 15 * kPageBytes;  // 3840 marks
  Status add(size_t bytes);
  static bool isPast(const StreamMark& ended);
  bool areAllPast() const;
  template <typename Visit>
  void forAll(const Visit& visit) const;

  const std::shared_ptr<const CudaDevice> device_;
  mutable std::mutex mutex_;
  std::vector<PinnedMemory> memory_;
  uint64_t memory_bytes_ = 0;
  std::vector<StreamMark> free_;
  uint32_t last_ = 0;  // number
  std::atomic<bool> is_distrusted_{false};
};

// A stream that waits until this goes. A resource; any thread may let it go.
class StreamHold {
 public:
  explicit StreamHold(std::shared_ptr<StreamMarks> marks) : marks_(std::move(marks)) {}
  ~StreamHold() {
    if (mark_) marks_->end(*mark_);
  }
  StreamHold(const StreamHold&) = delete;
  StreamHold& operator=(const StreamHold&) = delete;

  // Once; enqueues the wait. Error: no pinned memory, or the driver's.
  Status begin(CudaStream stream);

 private:
  const std::shared_ptr<StreamMarks> marks_;
  std::optional<StreamMark> mark_{};
};

}  // namespace horing
