#include "comm/gpu/stream_marks.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "comm/gpu/bounce_buffers.h"
#include "comm/gpu/stream_words.h"

namespace horing {

struct alignas(16) StreamMark::Words {
  std::atomic<uint32_t> arrived;  // the last mark that the stream has come to; written by the GPU
  std::atomic<uint32_t> left;     // the last one that it is past; written by the GPU
  std::atomic<uint32_t> ended;    // the last one that has ended; written by the host
  uint32_t awaited;  // the last one for whose end a wait was enqueued; the host's own, under the mutex
};

bool StreamMarks::settle() const {
  endAll();
  if (is_distrusted_) return false;
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kLastCopiesMs);
  bool all_past = true;
  forAll([&](const StreamMark::Words& words) {
    const auto is_past = [&words] { return hasReached(words.left, words.awaited); };
    while (!is_past() && !deadline.passed()) std::this_thread::sleep_for(kGpuNap);
    all_past &= is_past();
  });
  return all_past;
}

void StreamMarks::abandon() {
  for (PinnedMemory& each : memory_) each.leak();
  memory_.clear();
  free_.clear();
}

template <typename Visit>
void StreamMarks::forAll(const Visit& visit) const {
  for (const PinnedMemory& each : memory_)
    for (size_t at = 0; at < each.bytes(); at += sizeof(StreamMark::Words))
      visit(*reinterpret_cast<StreamMark::Words*>(each.data() + at));
}

Status StreamMarks::add(size_t bytes) {
  static_assert(kPageBytes % sizeof(StreamMark::Words) == 0);
  HORING_ASSIGN(PinnedMemory memory, PinnedMemory::allocate(device_, bytes));
  memory_.reserve(memory_.size() + 1);
  free_.reserve((memory_bytes_ + bytes) / sizeof(StreamMark::Words));  // for end(), which must not fail
  for (size_t at = 0; at < bytes; at += sizeof(StreamMark::Words)) {
    StreamMark mark;
    mark.words_ = new (memory.data() + at) StreamMark::Words{};
    mark.address_ = memory.address() + at;
    free_.push_back(mark);
  }
  memory_.push_back(std::move(memory));
  memory_bytes_ += bytes;
  return {};
}

// The stream of a mark that has ended may still have to come to it, or to find that it has.
bool StreamMarks::isPast(const StreamMark& ended) {
  return hasReached(ended.words_->arrived, ended.number_) &&
         hasReached(ended.words_->left, ended.words_->awaited);
}

bool StreamMarks::areAllPast() const {
  const std::lock_guard lock(mutex_);
  return free_.size() == memory_bytes_ / sizeof(StreamMark::Words) && std::ranges::all_of(free_, isPast);
}

bool StreamMarks::awaitPast(const Deadline& deadline) const {
  while (!is_distrusted_) {
    if (areAllPast()) return true;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(kGpuNap);
  }
  return false;
}

Result<StreamMark> StreamMarks::take() {
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(free_.begin(), free_.end(), isPast);
  if (found == free_.end()) {
    HORING_TRY(add(kPageBytes));
    found = free_.end() - 1;
  }
  StreamMark mark = *found;
  *found = free_.back();
  free_.pop_back();
  mark.number_ = ++last_;
  StreamMark::Words& words = *mark.words_;
  // Also where the words were last used very many numbers ago.
  for (std::atomic<uint32_t>* const word : {&words.arrived, &words.ended})
    word->store(mark.number_ - 1, std::memory_order_relaxed);
  return mark;
}

Status StreamMarks::tell(const StreamMark& mark, CudaStream stream) {
  const CudaAddress at = mark.address_ + offsetof(StreamMark::Words, arrived);
  return enqueueWrite(device_->api(), stream, at, mark.number_);
}

Status StreamMarks::comeBehind(const StreamMark& mark, CudaStream stream) {
  const CudaAddress at = mark.address_ + offsetof(StreamMark::Words, ended);
  return enqueueWait(device_->api(), stream, at, mark.number_);
}

Status StreamMarks::awaitEnd(const StreamMark& mark, CudaStream stream) {
  HORING_TRY(comeBehind(mark, stream));
  {
    const std::lock_guard lock(mutex_);
    mark.words_->awaited = mark.number_;
  }
  const CudaAddress at = mark.address_ + offsetof(StreamMark::Words, left);
  return enqueueWrite(device_->api(), stream, at, mark.number_);
}

bool StreamMarks::hasArrived(const StreamMark& mark) const {
  return hasReached(mark.words_->arrived, mark.number_);
}

bool StreamMarks::hasEnded(const StreamMark& mark) const {
  return hasReached(mark.words_->ended, mark.number_);
}

void StreamMarks::end(const StreamMark& mark) noexcept {
  const std::lock_guard lock(mutex_);
  // release: pairs with the GPU's wait, after which the caller's memory may be used again.
  mark.words_->ended.store(mark.number_, std::memory_order_release);
  free_.push_back(mark);  // has room: see add()
}

void StreamMarks::endAll() const noexcept {
  const std::lock_guard lock(mutex_);
  forAll([&](StreamMark::Words& words) { words.ended.store(last_, std::memory_order_release); });
}

Status StreamHold::begin(CudaStream stream) {
  HORING_ASSIGN(mark_, marks_->take());
  HORING_TRY(marks_->tell(*mark_, stream));
  return marks_->awaitEnd(*mark_, stream);
}

uint64_t StreamMarks::memoryBytes() const {
  const std::lock_guard lock(mutex_);
  return memory_bytes_;
}

}  // namespace horing
