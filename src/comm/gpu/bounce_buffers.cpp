#include "comm/gpu/bounce_buffers.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"
#include "cuda/outside_of_graphs.h"

namespace horing {

namespace {

constexpr size_t kAlignment = 4096;
constexpr int64_t kLastCopiesMs = 1000;
constexpr std::chrono::microseconds kNap{50};

// Two flows with each peer, and two buffers of each.
size_t pinnedBytes(int ranks) {
  return std::max(BounceBuffers::kPinnedBytes, static_cast<size_t>(ranks) * 4 * BounceBuffers::kLeastBytes);
}

}  // namespace

BounceBuffers::BounceBuffers(std::shared_ptr<const CudaDevice> device, int ranks, int64_t timeout_ms,
                             std::function<Status()> returned)
    : device_(std::move(device)),
      pinned_bytes_(pinnedBytes(ranks)),
      timeout_ns_(timeout_ms * 1'000'000),
      returned_(std::move(returned)) {}

BounceBuffers::~BounceBuffers() {
  if (!memory_.data()) return;
  if (isCopying()) memory_.leak();
  const CudaApi& api = device_->api();
  const CudaDevice::Current current(*device_);
  for (const Flow& flow : flows_)
    for (const Buffer& buffer : flow.buffers)
      if (buffer.copied) api.event_destroy(buffer.copied);
  for (const CudaStream stream : {reads_, writes_})
    if (stream) api.stream_destroy(stream);
}

void BounceBuffers::abandon() {
  memory_.leak();
}

Status BounceBuffers::reserve() {
  const std::lock_guard lock(mutex_);
  if (!memory_.data()) {
    HORING_ASSIGN(memory_, PinnedMemory::allocate(device_, pinned_bytes_));
    memory_bytes_.store(pinned_bytes_, std::memory_order_relaxed);
  }
  for (CudaStream* const stream : {&reads_, &writes_})
    if (!*stream) HORING_TRY(device_->makeStream(*stream));
  return {};
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
  // A message begins, or bytes of it were left out.
  if (!first.has(begin)) {
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
  // Bytes were left out.
  if (first.bytes > 0 && first.end() != cudaAddress(to)) HORING_TRY(handOver(own));
  HORING_ASSIGN(const bool is_free, hasCopied(first));
  if (!is_free) return size_t{0};
  if (first.bytes == 0) first.gpu = cudaAddress(to);
  const size_t moved = std::min(bytes, buffer_bytes_ - first.bytes);
  std::memcpy(first.host + first.bytes, from, moved);
  first.bytes += moved;
  // The end of a message, too: nobody knows when the flow's next one comes.
  if (first.bytes == buffer_bytes_ || moved == left) HORING_TRY(handOver(own));
  return moved;
}

Result<bool> BounceBuffers::trySettle(size_t flow) {
  Flow& own = flows_[flow];
  // The end of a message was left out.
  if (own.writes && own.buffers[0].bytes > 0) HORING_TRY(handOver(own));
  for (Buffer& buffer : own.buffers) {
    HORING_ASSIGN(const bool is_done, hasCopied(buffer));
    if (!is_done) return false;
  }
  return true;
}

// As much as it holds of what is before the end: nothing, perhaps.
Status BounceBuffers::fill(Buffer& buffer, CudaAddress from, CudaAddress end) {
  buffer.gpu = from;
  buffer.bytes =
      from < end ? std::min<size_t>(buffer_bytes_, end - from) : 0;  // the message before was longer
  if (buffer.bytes == 0) return {};
  return startCopy(buffer, cudaAddress(buffer.host), from, buffer.bytes, reads_);
}

// The first buffer's bytes go to the GPU, and the other is the first.
Status BounceBuffers::handOver(Flow& flow) {
  Buffer& buffer = flow.buffers[0];
  const size_t bytes = std::exchange(buffer.bytes, 0);
  HORING_TRY(startCopy(buffer, buffer.gpu, cudaAddress(buffer.host), bytes, writes_));
  std::swap(flow.buffers[0], flow.buffers[1]);
  return {};
}

Status BounceBuffers::startCopy(Buffer& buffer, CudaAddress to, CudaAddress from, size_t bytes,
                                CudaStream stream) {
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  if (!buffer.copied) HORING_TRY(device_->makeEvent(buffer.copied));
  HORING_TRY(api.check(api.copy(to, from, bytes, stream), "copying between GPU and host"));
  HORING_TRY(api.check(api.event_record(buffer.copied, stream), "recording an event"));
  buffer.is_copied = false;
  buffer.since_ns = clock_.nowNs();
  return returned_();
}

Result<bool> BounceBuffers::hasCopied(Buffer& buffer) const {
  if (buffer.is_copied) return true;
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  const int state = api.event_query(buffer.copied);
  HORING_TRY(returned_());
  if (state == CudaApi::kNotReady) {
    if (clock_.nowNs() - buffer.since_ns < timeout_ns_) return false;
    return makeStatus(Code::kTimeout,
                      "a copy between GPU %d and the host did not end in time (HORING_TIMEOUT_MS)",
                      device_->number());
  }
  HORING_TRY(api.check(state, "copying between GPU and host"));
  return buffer.is_copied = true;
}

// By the streams: of a copy that failed there may be no event.
bool BounceBuffers::isCopying() const {
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const CudaDevice::Current current(*device_);
  const auto is_busy = [&](CudaStream stream) {
    return stream && api.stream_query(stream) == CudaApi::kNotReady;
  };
  return is_busy(reads_) || is_busy(writes_);
}

void BounceBuffers::awaitCopies() const {
  const Deadline deadline = Deadline::after(clock_, kLastCopiesMs);
  while (isCopying() && !deadline.passed()) std::this_thread::sleep_for(kNap);
}

}  // namespace horing
