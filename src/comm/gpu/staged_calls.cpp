#include "comm/gpu/staged_calls.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "base/no_memory.h"
#include "comm/gpu/gpu_sharing.h"
#include "cuda/outside_of_graphs.h"

namespace horing {

namespace {

constexpr CudaStream kDefaultStream = nullptr;

void copyOnHost(const std::vector<StagedCopy>& copies) {
  const auto memoryAt = [](CudaAddress at) { return reinterpret_cast<void*>(at); };
  for (const StagedCopy& each : copies) std::memcpy(memoryAt(each.to), memoryAt(each.from), each.bytes);
}

}  // namespace

Result<std::unique_ptr<StagedCalls>> StagedCalls::create(const std::shared_ptr<const CudaDevice>& device,
                                                         Communicator& communicator) {
  const Membership& membership = communicator.membership();
  const int rank = membership.rank();
  std::unique_ptr<StagedCalls> calls(
      new StagedCalls(device, communicator, {rank, membership.ranks()}, membership.aborted()));
  HORING_TRY(calls->initialise());
  return calls;
}

Status StagedCalls::initialise() {
  may_have_kernel_ =
      !mayShareGpus(communicator_.membership().placement().identities(), place_.rank) || device_->hasMps();
  HORING_ASSIGN(progress_memory_, PinnedMemory::allocate(device_, sizeof(Progress)));
  progress_ = new (progress_memory_.data()) Progress{};
  memory_bytes_ = sizeof(Progress);
  HORING_TRY(one_sided_.reserve());
  return device_->makeEvent(last_);
}

void StagedCalls::abandon() {
  progress_memory_.leak();
  for (Slot& slot : slots_)
    for (StagingMemory& memory : slot) memory.leak();
  for (StagingMemory& memory : blocking_slot_) memory.leak();
  last_ = nullptr;
  bounce_buffers_.abandon();
  one_sided_.abandon();
  if (kernel_copier_) kernel_copier_->leak();
}

StagedCalls::~StagedCalls() {
  release_.stop();
  if (!last_) return;
  letGoAll();
  const CudaApi& api = device_->api();
  const OutsideOfGraphs outside(api);
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kLastCopiesMs);
  int state = CudaApi::kNotReady;
  {
    const CudaDevice::Current current(*device_);
    while ((state = api.event_query(last_)) == CudaApi::kNotReady && !deadline.passed())
      std::this_thread::sleep_for(kGpuNap);
    api.event_destroy(last_);
  }
  // Earlier work blocks the stream.
  if (state == CudaApi::kNotReady) abandon();
}

// Keeps the old memory while the GPU uses it: sizes double, so all together take less than twice the last.
Result<std::byte*> StagedCalls::reserve(Slot& slot, size_t bytes) {
  const size_t has = slot.empty() ? 0 : slot.back().bytes();
  if (bytes > has) {
    const size_t wanted = std::max({bytes, 2 * has, StagedPieces::kPieceBytes + 4096});
    HORING_ASSIGN(StagingMemory memory, StagingMemory::allocate(device_, communicator_, wanted));
    slot.push_back(std::move(memory));
    memory_bytes_.fetch_add(wanted, std::memory_order_relaxed);
  }
  return slot.empty() ? nullptr : slot.back().data();
}

Status StagedCalls::copy(const std::vector<StagedCopy>& copies, CudaStream stream) const {
  const CudaApi& api = device_->api();
  for (const StagedCopy& each : copies)
    HORING_TRY(api.check(api.copy(each.to, each.from, each.bytes, stream), "copying between GPU and host"));
  return {};
}

Status StagedCalls::copyOutWhenDone(const StagedPiece& piece, uint32_t number, CudaStream stream) const {
  const CudaAddress done = progress_memory_.address() + offsetof(Progress, done);
  HORING_TRY(enqueueWait(device_->api(), stream, done, number));
  return copy(piece.out, stream);
}

Status StagedCalls::enqueue(const Command& command, std::span<const CudaStream> streams,
                            StagedOperation& operation) {
  for (const CudaStream stream : streams) {
    HORING_TRY(device_->checkStream(stream));
    HORING_ASSIGN(const uint64_t graph, device_->recordedGraph(stream));
    if (graph != 0)
      return makeStatus(
          Code::kInvalidUsage,
          "stream %p records a graph: operations that go through the host cannot be part of one "
          "yet; launch them outside",
          stream);
  }
  HORING_TRY(release_.start());
  const StagedPieces pieces(command, place_);
  if (pieces.hasCopier()) {
    HORING_TRY(bounce_buffers_.reserve());
    operation.has_copy_kernel = hasCopyKernel();
  }
  std::array<std::byte*, kSlots> staging{};
  for (size_t slot = 0; slot < std::min(kSlots, pieces.count()); ++slot) {
    HORING_ASSIGN(staging[slot], reserve(slots_[slot], pieces.largestBytes()));
  }
  operation.pieces.reserve(pieces.count());
  operation.first = next_;
  next_ += static_cast<uint32_t>(pieces.count());
  const CudaDevice::Current current(*device_);
  const CudaApi& api = device_->api();
  const CudaStream stream = streams.front();
  const std::span<const CudaStream> others = streams.subspan(1);
  Status told = withoutExceptions([&]() -> Status {
    HORING_TRY(comeBehind(others, stream));
    return enqueuePieces(pieces, staging, stream, operation);
  });
  // Also after a failure: the part enqueued before uses the pinned memory, too.
  const Status recorded =
      withoutExceptions([&] { return api.check(api.event_record(last_, stream), "recording an event"); });
  if (told.ok()) told = recorded;
  for (const CudaStream other : others) {
    const Status ordered = withoutExceptions(
        [&] { return api.check(api.stream_wait_event(other, last_, 0), "ordering two streams"); });
    if (told.ok()) told = ordered;
  }
  return told;
}

// Before the stream waits for anything: loading a kernel may wait for the stream. If it fails the driver copies.
bool StagedCalls::hasCopyKernel() {
  if (kernel_copier_) return true;
  if (!std::exchange(may_have_kernel_, false)) return false;
  const OutsideOfGraphs outside(device_->api());
  auto made = KernelCopier::create(device_, BounceBuffers::mostCopies(place_.ranks));
  if (!made.ok()) return false;
  kernel_copier_ = made.take();
  memory_bytes_.fetch_add(kernel_copier_->memoryBytes(), std::memory_order_relaxed);
  return true;
}

Status StagedCalls::launchCopyKernel(uint32_t number, CudaStream stream) const {
  const auto at = [this](size_t offset) {
    return reinterpret_cast<const uint32_t*>(progress_memory_.address() + offset);
  };
  return kernel_copier_->launch(at(offsetof(Progress, done)), number, at(offsetof(Progress, ended)), stream);
}

// Slots and numbers are used by one operation at a time. An event that was never recorded is no wait.
Status StagedCalls::comeBehind(std::span<const CudaStream> others, CudaStream stream) const {
  const CudaApi& api = device_->api();
  HORING_TRY(api.check(api.stream_wait_event(stream, last_, 0), "ordering two streams"));
  for (const CudaStream other : others) {
    HORING_TRY(api.check(api.event_record(last_, other), "recording an event"));
    HORING_TRY(api.check(api.stream_wait_event(stream, last_, 0), "ordering two streams"));
  }
  return {};
}

Status StagedCalls::enqueuePieces(const StagedPieces& pieces, const std::array<std::byte*, kSlots>& staging,
                                  CudaStream stream, StagedOperation& operation) {
  const CudaAddress arrived = progress_memory_.address() + offsetof(Progress, arrived);
  std::array<StagedPiece, kSlots> under_way;
  for (size_t i = 0; i < pieces.count() + kSlots; ++i) {
    StagedPiece& piece = under_way[i % kSlots];
    const auto number = static_cast<uint32_t>(operation.first + i);
    if (i >= kSlots && i - kSlots < pieces.count())
      HORING_TRY(copyOutWhenDone(piece, number - static_cast<uint32_t>(kSlots), stream));
    if (i >= pieces.count()) continue;
    piece = pieces.piece(i, staging[i % kSlots]);
    operation.pieces.push_back(std::move(piece.host));
    HORING_TRY(copy(piece.in, stream));
    HORING_TRY(enqueueWrite(device_->api(), stream, arrived, number));
    if (operation.has_copy_kernel) HORING_TRY(launchCopyKernel(number, stream));
  }
  return {};
}

Status StagedCalls::awaitArrival(uint32_t number, Deadline deadline, const std::atomic<bool>& aborted) {
  const SteadyClock clock;
  const int64_t begun_ns = clock.nowNs();
  while (!hasReached(progress_->arrived, number)) {
    release_.step();
    if (aborted.load(std::memory_order_relaxed))
      return makeStatus(Code::kInvalidUsage, "rank %d: the communicator was aborted", place_.rank);
    const int64_t now_ns = clock.nowNs();
    if (now_ns - begun_ns < kGpuYieldNs) {
      ::sched_yield();
      continue;
    }
    if (deadline.passed()) return lateStream();
    std::this_thread::sleep_for(kGpuNap);
  }
  return {};
}

// Only now asks the driver whether the GPU is alive: the call may block until streams continue that wait for this thread
// (comm/gpu/stream_release.h).
Status StagedCalls::lateStream() const {
  const CudaDevice::Current current(*device_);
  const OutsideOfGraphs outside(device_->api());
  const int state = device_->api().event_query(last_);
  if (state != CudaApi::kSuccess && state != CudaApi::kNotReady)
    return device_->api().check(
        state,
        formatString("rank %d: waiting for its stream on GPU %d", place_.rank, device_->number()).c_str());
  return makeStatus(Code::kTimeout,
                    "rank %d: its stream on GPU %d did not reach this operation in time "
                    "(HORING_TIMEOUT_MS): something before it on the stream does not end",
                    place_.rank, device_->number());
}

Status StagedCalls::carryOut(const StagedOperation& operation, const Run& run, Deadline deadline,
                             const std::atomic<bool>& aborted) {
  // Releases the stream in every case.
  struct LetGo {
    Progress& progress;
    uint32_t last;
    bool succeeded = false;
    // release: pairs with the GPU's wait, after which it copies the result and launches the next kernel.
    ~LetGo() {
      if (!succeeded) progress.ended.store(1, std::memory_order_release);
      progress.done.store(last, std::memory_order_release);
    }
  };
  const size_t count = operation.pieces.size();
  if (count == 0) return operation.failed;
  LetGo let_go{*progress_, operation.first + static_cast<uint32_t>(count) - 1};
  HORING_TRY(operation.failed);
  HORING_TRY(release_.outcome());
  struct Steps {
    StreamRelease& release;
    ~Steps() { release.end(); }
  };
  release_.begin(2 * std::min(communicator_.timeoutMs(), kLongestHoldMs));
  const Steps steps{release_};
  const Status status = carryOutPieces(operation, run, deadline, aborted);
  let_go.succeeded = status.ok();
  return status;
}

Status StagedCalls::carryOutPieces(const StagedOperation& operation, const Run& run, Deadline deadline,
                                   const std::atomic<bool>& aborted) {
  bounce_buffers_.use(operation.has_copy_kernel ? kernel_copier_.get() : nullptr, communicator_.timeoutMs());
  for (size_t i = 0; i < operation.pieces.size(); ++i) {
    const uint32_t number = operation.first + static_cast<uint32_t>(i);
    HORING_TRY(awaitArrival(number, deadline, aborted));
    HORING_TRY(driverReturned());
    HORING_TRY(runOnHost(operation.pieces[i], run));
    HORING_TRY(driverReturned());
    progress_->done.store(number, std::memory_order_release);
  }
  return {};
}

Status StagedCalls::driverReturned() {
  release_.step();
  return release_.outcome();
}

void StagedCalls::letGoAll() {
  progress_->ended.store(1, std::memory_order_release);
  progress_->done.store(next_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  one_sided_.endAll();
}

Status StagedCalls::runOnHost(const HostPart& part, const Run& run) const {
  const Command& command = part.command;
  copyOnHost(part.in);
  const Status status = withoutExceptions([&] { return run(command); });
  if (status.ok()) copyOnHost(part.out);
  if (status.ok()) return in_place_.received(command.transfers());
  // The caller may reuse its memory now.
  if (hasCopier(command)) bounce_buffers_.awaitCopies();
  return status;
}

Status StagedCalls::awaitDefaultStream(int64_t timeout_ms, const std::atomic<bool>& aborted) const {
  const SteadyClock clock;
  const auto news = [&]() -> Status {
    HORING_TRY(communicator_.messages().serveBeside());
    return aborted.load(std::memory_order_relaxed)
               ? makeStatus(Code::kInvalidUsage, "rank %d: the communicator was aborted", place_.rank)
               : Status();
  };
  const OutsideOfGraphs outside(device_->api());
  const Status status = device_->synchronize(kDefaultStream, news, Deadline::after(clock, timeout_ms));
  if (status.ok()) return status;
  // The GPU may still run the copies, which use pinned memory: wait before freeing it.
  const CudaDevice::Current current(*device_);
  device_->api().event_record(last_, kDefaultStream);
  return makeStatus(status.code(), "rank %d: %s", place_.rank, status.message().c_str());
}

Status StagedCalls::run(const Command& command, const Run& run_on_host, int64_t timeout_ms,
                        const std::atomic<bool>& aborted) {
  const StagedPieces pieces(command, place_);
  if (pieces.hasCopier()) HORING_TRY(bounce_buffers_.reserve());
  bounce_buffers_.use(nullptr, timeout_ms);
  HORING_ASSIGN(std::byte* const staging, reserve(blocking_slot_, pieces.largestBytes()));
  const CudaApi& api = device_->api();
  for (size_t i = 0; i < pieces.count(); ++i) {
    const StagedPiece piece = pieces.piece(i, staging);
    {
      const CudaDevice::Current current(*device_);
      HORING_TRY(api.check(api.stream_wait_event(kDefaultStream, last_, 0), "ordering two streams"));
      HORING_TRY(copy(piece.in, kDefaultStream));
    }
    HORING_TRY(awaitDefaultStream(timeout_ms, aborted));
    HORING_TRY(runOnHost(piece.host, run_on_host));
    {
      const CudaDevice::Current current(*device_);
      HORING_TRY(copy(piece.out, kDefaultStream));
    }
    HORING_TRY(awaitDefaultStream(timeout_ms, aborted));
  }
  return {};
}

}  // namespace horing
