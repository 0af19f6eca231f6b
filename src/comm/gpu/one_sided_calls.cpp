#include "comm/gpu/one_sided_calls.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/no_memory.h"
#include "comm/gpu/bounce_buffers.h"

namespace horing {

OneSidedCalls::~OneSidedCalls() {
  if (!marks_->settle()) {
    abandon();
    return;
  }
  // Without memory their destructors close them.
  [[maybe_unused]] const Status closed = withoutExceptions([&]() -> Status {
    windows_.closeAll();
    const SteadyClock clock;
    [[maybe_unused]] const bool in_time = awaitOthers(Deadline::after(clock, kLastCopiesMs));
    return {};
  });
}

void OneSidedCalls::abandon() {
  marks_->abandon();
  for (Buffers& buffers : buffers_)
    for (Buffer& buffer : buffers.both)
      if (buffer.memory) buffer.memory->leak();
  buffers_.clear();
  windows_.leak();
}

// After an error a rank may never close what it has open, as it may have died.
bool OneSidedCalls::awaitOthers(const Deadline& deadline) {
  return windows_.awaitOthers(deadline, [&] { return !communicator_.asyncError().ok(); });
}

void OneSidedCalls::warnOfLeft(const char* what) const {
  communicator_.membership().log().warn(
      "gpu",
      "a window in memory of GPUs was deregistered, and %s: free its memory when all ranks have "
      "deregistered it and their streams are past their puts",
      what);
}

void OneSidedCalls::closeUnusedWindows(const Deadline& deadline, bool awaits_others) {
  if (!windows_.hasUnused() && !(awaits_others && windows_.hasUnawaited())) return;
  windows_.tellUnused();
  const bool may_close = marks_->awaitPast(deadline);
  if (may_close) windows_.closeUnused();
  if (!awaits_others) return;
  if (!may_close)
    warnOfLeft(
        "streams of this rank are not known to be past their puts, signals and waits, so the parts of the "
        "others stay open");
  else if (!awaitOthers(deadline))
    warnOfLeft("after a second other processes still have this rank's part open");
}

Status OneSidedCalls::check(CudaStream stream) const {
  HORING_TRY(device_->checkStream(stream));
  HORING_ASSIGN(const uint64_t graph, device_->recordedGraph(stream));
  if (graph != 0)
    return makeStatus(
        Code::kInvalidUsage,
        "stream %p records a graph: puts, signals and waits cannot be part of one; launch them outside",
        stream);
  return {};
}

Result<std::shared_ptr<const StreamHold>> OneSidedCalls::hold(CudaStream stream) {
  const CudaDevice::Current current(*device_);
  auto held = std::make_shared<StreamHold>(marks_);
  const Status begun = held->begin(stream);
  if (begun.ok()) return std::shared_ptr<const StreamHold>(std::move(held));
  marks_->distrust();
  return begun;
}

Status OneSidedCalls::comeBehind(const std::optional<StreamMark>& mark, CudaStream stream) {
  return mark && !marks_->hasEnded(*mark) ? marks_->comeBehind(*mark, stream) : Status();
}

Result<StreamMark> OneSidedCalls::enqueue(const Command& command, CudaStream stream,
                                          const std::optional<StreamMark>& behind, const Add& add) {
  const CudaDevice::Current current(*device_);
  Result<StreamMark> last = Status(noMemory());
  const Status enqueued = withoutExceptions([&]() -> Status {
    HORING_TRY(comeBehind(behind, stream));
    last = enqueueAll(command, stream, add);
    return last.status();
  });
  if (enqueued.ok()) return last;
  marks_->distrust();
  return enqueued;
}

Result<StreamMark> OneSidedCalls::enqueueAll(const Command& command, CudaStream stream, const Add& add) {
  const std::span<const Transfer> transfers = command.transfers();
  const Transfer& first = transfers.front();
  if (!command.put_at)
    return first.on_gpu ? enqueueParts(first, stream, add) : enqueueTogether(transfers, stream, add);
  const auto& put = std::get<Transfer::Put>(first.kind);
  const CudaApi& api = device_->api();
  if (first.bytes > 0 && GpuWindows::isOpen(command.window->on_gpus, first.peer))
    HORING_TRY(api.check(api.copy(cudaAddress(command.put_at), cudaAddress(put.input), first.bytes, stream),
                         "copying into the window of another rank"));
  // The target has nothing to write. It still looks whether the window is open.
  const Transfer written{.kind = Transfer::Put{.target = {put.target.window, 0}, .signal = put.signal},
                         .peer = first.peer};
  return enqueueTogether({&written, 1}, stream, add);
}

Result<StreamMark> OneSidedCalls::enqueueTogether(std::span<const Transfer> transfers, CudaStream stream,
                                                  const Add& add) {
  HORING_ASSIGN(const StreamMark mark,
                enqueuePart(Command(ExchangeCommand{{transfers.begin(), transfers.end()}}), stream, add));
  HORING_TRY(marks_->awaitEnd(mark, stream));
  return mark;
}

Result<StreamMark> OneSidedCalls::enqueuePart(Command part, CudaStream stream, const Add& add) {
  HORING_ASSIGN(const StreamMark mark, marks_->take());
  const Status added = withoutExceptions([&]() -> Status {
    HORING_TRY(marks_->tell(mark, stream));
    return add({std::move(part), mark});
  });
  if (added.ok()) return mark;
  marks_->end(mark);
  return added;
}

// Two parts at a time: each waits for the one that used its buffer before.
Result<StreamMark> OneSidedCalls::enqueueParts(const Transfer& put, CudaStream stream, const Add& add) {
  std::optional<StreamMark> last, before_last;
  for (size_t at = 0; at < put.bytes; at += kPartBytes) {
    Transfer part = put;
    part.on_gpu = false;
    part.bytes = std::min(kPartBytes, put.bytes - at);
    auto& [input, target, signal] = std::get<Transfer::Put>(part.kind);
    input += at;
    target.offset += at;
    if (at + part.bytes < put.bytes) signal = Transfer::kNoSignal;
    before_last = std::exchange(last, std::nullopt);
    HORING_ASSIGN(last, enqueueCopied(part, stream, add));
  }
  HORING_TRY(comeBehind(before_last, stream));
  HORING_TRY(marks_->awaitEnd(*last, stream));
  return *last;
}

OneSidedCalls::Buffers& OneSidedCalls::buffersFor(CudaStream stream) {
  const auto of_stream = std::ranges::find(buffers_, stream, &Buffers::stream);
  if (of_stream != buffers_.end()) return *of_stream;
  const auto unused = std::ranges::find_if(buffers_, [&](const Buffers& buffers) {
    return std::ranges::all_of(
        buffers.both, [&](const Buffer& each) { return !each.user || marks_->hasEnded(*each.user); });
  });
  if (unused == buffers_.end()) return buffers_.emplace_back(Buffers{stream});
  unused->stream = stream;
  return *unused;
}

Result<StreamMark> OneSidedCalls::enqueueCopied(const Transfer& part, CudaStream stream, const Add& add) {
  Buffers& buffers = buffersFor(stream);
  // Both at once: the next put may come behind a stream that waits.
  for (Buffer& each : buffers.both) {
    if (each.memory) continue;
    HORING_ASSIGN(StagingMemory memory, StagingMemory::allocate(device_, communicator_, kPartBytes));
    each.memory.emplace(std::move(memory));
    buffer_bytes_.fetch_add(kPartBytes, std::memory_order_relaxed);
  }
  Buffer& buffer = buffers.both[buffers.next];
  buffers.next = (buffers.next + 1) % buffers.both.size();
  if (buffer.user && marks_->hasEnded(*buffer.user)) buffer.user.reset();
  HORING_TRY(comeBehind(buffer.user, stream));
  const CudaApi& api = device_->api();
  Transfer copied = part;
  auto& input = std::get<Transfer::Put>(copied.kind).input;
  std::byte* const pinned = buffer.memory->data();
  HORING_TRY(api.check(api.copy(cudaAddress(pinned), cudaAddress(input), part.bytes, stream),
                       "copying between GPU and host"));
  input = pinned;
  HORING_ASSIGN(const StreamMark mark, enqueuePart(Command(ExchangeCommand{{copied}}), stream, add));
  buffer.user = mark;
  return mark;
}

}  // namespace horing
