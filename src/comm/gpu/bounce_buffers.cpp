#include "comm/gpu/bounce_buffers.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"

namespace horing {

namespace {

constexpr size_t kAlignment = 4096;

size_t pinnedBytes(int ranks) {
  return std::max(BounceBuffers::kPinnedBytes, BounceBuffers::mostCopies(ranks) * BounceBuffers::kLeastBytes);
}

}  // namespace

BounceBuffers::BounceBuffers(std::shared_ptr<const CudaDevice> device, int ranks,
                             std::function<Status()> returned)
    : device_(std::move(device)),
      pinned_bytes_(pinnedBytes(ranks)),
      returned_(std::move(returned)),
      driver_(device_) {}

BounceBuffers::~BounceBuffers() {
  if (memory_.data() && driver_.isCopying()) memory_.leak();
}

void BounceBuffers::abandon() {
  memory_.leak();
  driver_.abandon();
}

Status BounceBuffers::reserve() {
  const std::lock_guard lock(mutex_);
  if (!memory_.data()) {
    HORING_ASSIGN(memory_, PinnedMemory::allocate(device_, pinned_bytes_));
    memory_bytes_.store(pinned_bytes_, std::memory_order_relaxed);
  }
  return driver_.prepare();
}

void BounceBuffers::begin(size_t flows) {
  HORING_CHECK(memory_.data());
  flows_.resize(std::max(flows_.size(), flows));
  buffer_bytes_ = std::min(kMostBytes, pinned_bytes_ / (2 * flows)) / kAlignment * kAlignment;
  HORING_CHECK(buffer_bytes_ > 0);
  std::byte* next = memory_.data();
  for (size_t i = 0; i < flows; ++i) {
    flows_[i].writes = false;
    for (Buffer& buffer : flows_[i].buffers) {
      buffer.host = std::exchange(next, next + buffer_bytes_);
      buffer.bytes = 0;
    }
  }
}

Result<size_t> BounceBuffers::tryRead(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                                      size_t left) {
  auto& [first, second] = flows_[flow].buffers;
  const CudaAddress begin = cudaAddress(from), end = begin + left;
  // A new message, or a gap in this one. Copies complete in any order, so finish earlier read-ahead first.
  if (!first.has(begin)) {
    for (Buffer* const buffer : {&first, &second}) {
      HORING_ASSIGN(const bool is_free, hasCopied(*buffer));
      if (!is_free) return size_t{0};
    }
    HORING_TRY(fill(first, begin, end));
    HORING_TRY(fill(second, first.end(), end));
  }
  HORING_ASSIGN(const bool is_there, hasCopied(first));
  if (!is_there) return size_t{0};
  const size_t moved = std::min<size_t>(bytes, first.end() - begin);
  std::memcpy(to, first.host + (begin - first.gpu), moved);
  if (begin + moved == first.end()) {
    std::swap(first, second);
    HORING_TRY(fill(second, first.end(), end));
  }
  return moved;
}

Result<size_t> BounceBuffers::tryWrite(size_t flow, std::byte* to, const std::byte* from, size_t bytes,
                                       size_t left) {
  Flow& own = flows_[flow];
  own.writes = true;
  Buffer& first = own.buffers[0];
  // A gap in the message.
  if (first.bytes > 0 && first.end() != cudaAddress(to)) HORING_TRY(handOver(own));
  HORING_ASSIGN(const bool is_free, hasCopied(first));
  if (!is_free) return size_t{0};
  if (first.bytes == 0) first.gpu = cudaAddress(to);
  const size_t moved = std::min(bytes, buffer_bytes_ - first.bytes);
  std::memcpy(first.host + first.bytes, from, moved);
  first.bytes += moved;
  // Also at the end of a message: the flow's next message may come much later.
  if (first.bytes == buffer_bytes_ || moved == left) HORING_TRY(handOver(own));
  return moved;
}

Result<bool> BounceBuffers::trySettle(size_t flow) {
  Flow& own = flows_[flow];
  // The end of the previous message was skipped.
  if (own.writes && own.buffers[0].bytes > 0) HORING_TRY(handOver(own));
  for (Buffer& buffer : own.buffers) {
    HORING_ASSIGN(const bool is_done, hasCopied(buffer));
    if (!is_done) return false;
  }
  return true;
}

// Reads as much as fits, up to `end`; perhaps nothing.
Status BounceBuffers::fill(Buffer& buffer, CudaAddress from, CudaAddress end) {
  buffer.gpu = from;
  buffer.bytes =
      from < end ? std::min<size_t>(buffer_bytes_, end - from) : 0;  // the previous message was longer
  if (buffer.bytes == 0) return {};
  return startCopy(buffer, cudaAddress(buffer.host), from, buffer.bytes, GpuCopier::Direction::kFromGpu);
}

// Starts the copy of the first buffer to the GPU, and swaps the buffers.
Status BounceBuffers::handOver(Flow& flow) {
  Buffer& buffer = flow.buffers[0];
  const size_t bytes = std::exchange(buffer.bytes, 0);
  HORING_TRY(startCopy(buffer, buffer.gpu, cudaAddress(buffer.host), bytes, GpuCopier::Direction::kToGpu));
  std::swap(flow.buffers[0], flow.buffers[1]);
  return {};
}

Status BounceBuffers::startCopy(Buffer& buffer, CudaAddress to, CudaAddress from, size_t bytes,
                                GpuCopier::Direction direction) {
  HORING_ASSIGN(buffer.copy, copier_->start(to, from, bytes, direction));
  buffer.since_ns = clock_.nowNs();
  return returned_();
}

Result<bool> BounceBuffers::hasCopied(Buffer& buffer) {
  if (!buffer.copy) return true;
  const Result<bool> is_done = copier_->isDone(*buffer.copy);
  HORING_TRY(returned_());
  HORING_TRY(is_done.status());
  if (is_done.value()) {
    buffer.copy.reset();
    return true;
  }
  if (clock_.nowNs() - buffer.since_ns < timeout_ns_) return false;
  return makeStatus(Code::kTimeout,
                    "a copy between GPU %d and the host did not end in time (HORING_TIMEOUT_MS)",
                    device_->number());
}

Status BounceBuffers::copy(std::byte* to, const std::byte* from, size_t bytes, MemoryCopier::Ends ends,
                           const std::function<Status()>& news) {
  if ((ends.from_is_far && ends.to_is_far) || copier_->takesAnyMemory())
    return copyNow(cudaAddress(to), cudaAddress(from), bytes,
                   ends.to_is_far ? GpuCopier::Direction::kToGpu : GpuCopier::Direction::kFromGpu, news);
  if (!ends.from_is_far && !ends.to_is_far) {
    std::memmove(to, from, bytes);
    return {};
  }
  std::byte* const pinned = memory_.data();
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, pinned_bytes_);
    if (ends.from_is_far) {
      HORING_TRY(
          copyNow(cudaAddress(pinned), cudaAddress(from + done), part, GpuCopier::Direction::kFromGpu, news));
      std::memcpy(to + done, pinned, part);
    } else {
      std::memcpy(pinned, from + done, part);
      HORING_TRY(
          copyNow(cudaAddress(to + done), cudaAddress(pinned), part, GpuCopier::Direction::kToGpu, news));
    }
    done += part;
  }
  return {};
}

Status BounceBuffers::copyNow(CudaAddress to, CudaAddress from, size_t bytes, GpuCopier::Direction direction,
                              const std::function<Status()>& news) {
  Buffer buffer;
  HORING_TRY(startCopy(buffer, to, from, bytes, direction));
  for (;;) {
    HORING_ASSIGN(const bool is_done, hasCopied(buffer));
    if (is_done) return {};
    HORING_TRY(news());
    if (clock_.nowNs() - buffer.since_ns < kGpuYieldNs)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kGpuNap);
  }
}

void BounceBuffers::awaitCopies() const {
  const Deadline deadline = Deadline::after(clock_, kLastCopiesMs);
  while (copier_->isCopying() && !deadline.passed()) std::this_thread::sleep_for(kGpuNap);
}

}  // namespace horing
