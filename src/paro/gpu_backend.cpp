// Data in memory of a GPU: work is kernels and copies on the caller's stream, which waits for transfers by events.
#include <algorithm>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/quotient.h"
#include "cuda/driver.h"
#include "cuda/outside_of_graphs.h"
#include "engine/cuda/element_kernel.h"
#include "engine/cuda/lane_gpu.h"
#include "paro/allocator.h"
#include "paro/backend.h"
#include "paro/convert.h"

namespace horing::paro {

namespace {

using cuda::ElementCall;
using cuda::ElementWork;
using cuda::SquareSum;
using Gpu = std::shared_ptr<const CudaDevice>;

constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
constexpr int32_t kMostBlocks = 2048;
// Partial sums of squares: as many on every GPU, so that the same sums are the same everywhere.
constexpr int32_t kSquareBlocks = 64;
constexpr size_t kSquareParts = size_t{kSquareBlocks} * cuda::kElementThreads;

// For calls of the driver on a GPU, also while the program records a graph.
struct OnGpu {
  explicit OnGpu(const CudaDevice& gpu) : current(gpu), outside(gpu.api()) {}
  CudaDevice::Current current;
  OutsideOfGraphs outside;
};

// An event that was recorded. A resource.
class Recorded {
 public:
  static Result<std::unique_ptr<Recorded>> on(const Gpu& gpu, CudaStream stream) {
    CudaEvent event = nullptr;
    HORING_TRY(gpu->makeEvent(event));
    auto recorded = std::unique_ptr<Recorded>(new Recorded(gpu, event));
    const OnGpu on(*gpu);
    HORING_TRY(gpu->api().check(gpu->api().event_record(event, stream), "marking a place on a stream"));
    return recorded;
  }
  ~Recorded() {
    const OnGpu on(*gpu_);
    (void)gpu_->api().event_destroy(event_);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  // `stream` does what it is given from now on after the event.
  Status holdUp(CudaStream stream) const {
    const OnGpu on(*gpu_);
    return gpu_->api().check(gpu_->api().stream_wait_event(stream, event_, 0),
                             "letting a stream wait for another");
  }

 private:
  Recorded(Gpu gpu, CudaEvent event) : gpu_(std::move(gpu)), event_(event) {}
  const Gpu gpu_;
  const CudaEvent event_;
};

// Every wait of the host: ends with an error of a collective, or when the communicator's timeout has passed.
class HostWait {
 public:
  HostWait(Gpu gpu, const Grid& grid) : gpu_(std::move(gpu)), grid_(grid) {}
  const Gpu& gpu() const { return gpu_; }

  // A stream goes on behind a collective that failed, so the news count at the end, too. A collective that this waits for began no earlier,
  // and so passes its deadline no earlier, but says which rank is the cause.
  Status until(CudaStream stream) const {
    const Status waited = until(stream, [this] { return grid_.news(); });
    HORING_TRY(waited.code() == Code::kTimeout ? grid_.awaitNews() : grid_.news());
    return named(waited);
  }
  // An error of the driver or of a wait.
  Status named(const Status& status) const {
    if (status.ok()) return status;
    return makeStatus(status.code(), "rank %d, on GPU %d: %s", grid_.rank(), gpu_->number(),
                      status.message().c_str());
  }
  // Also after such an error. After work that did not end, no memory is idle, and there is nothing to wait for.
  bool untilIdle(CudaStream stream) {
    if (!is_stuck_) is_stuck_ = !until(stream, [] { return Status(); }).ok();
    return !is_stuck_;
  }

 private:
  Status until(CudaStream stream, const std::function<Status()>& ends) const {
    const SteadyClock clock;
    const OutsideOfGraphs outside(gpu_->api());
    return gpu_->synchronize(stream, ends, Deadline::after(clock, operationMs(grid_.timeoutMs())));
  }

  const Gpu gpu_;
  const Grid& grid_;
  bool is_stuck_ = false;
};

class GpuMark final : public Awaited {
 public:
  GpuMark(const HostWait& wait, std::unique_ptr<Recorded> recorded, CudaStream waiting)
      : wait_(wait), recorded_(std::move(recorded)), waiting_(waiting) {}
  Status await() const override { return wait_.named(recorded_->holdUp(waiting_)); }

 private:
  const HostWait& wait_;  // the backend's
  const std::unique_ptr<Recorded> recorded_;
  const CudaStream waiting_;
};

class GpuStream final : public TransferStream {
 public:
  GpuStream(HostWait& wait, CudaStream own, CudaStream work) : wait_(wait), own_(own), work_(work) {}
  ~GpuStream() override {
    (void)wait_.untilIdle(own_);
    const OnGpu on(*wait_.gpu());
    (void)wait_.gpu()->api().stream_destroy(own_);
  }
  horingStream_t get() const override { return static_cast<horingStream_t>(own_); }
  Status follow() override {
    HORING_ASSIGN(const std::unique_ptr<Recorded> now, recorded(work_));
    return wait_.named(now->holdUp(own_));
  }
  Result<std::shared_ptr<const Awaited>> mark() override {
    HORING_ASSIGN(std::unique_ptr<Recorded> now, recorded(own_));
    return std::shared_ptr<const Awaited>(std::make_shared<GpuMark>(wait_, std::move(now), work_));
  }

 private:
  Result<std::unique_ptr<Recorded>> recorded(CudaStream stream) const {
    Result<std::unique_ptr<Recorded>> now = Recorded::on(wait_.gpu(), stream);
    if (now.ok()) return now;
    return wait_.named(now.status());
  }

  HostWait& wait_;  // the backend's
  const CudaStream own_, work_;
};

class GpuBackend final : public Backend {
 public:
  GpuBackend(const CudaDriver& driver, const horingParoMemory_t& memory, HostWait wait)
      : driver_(driver), memory_(memory), stream_(memory.stream), wait_(std::move(wait)) {}
  ~GpuBackend() override {
    if (squares_) release(squares_, kSquareBytes);
    if (!wait_.untilIdle(stream_)) parts_.leak();
  }
  Status open() {
    HORING_TRY(gpu().checkStream(stream_));
    HORING_TRY(checkNotRecorded());
    kernels_ = cuda::LaneGpu::of(wait_.gpu());
    HORING_TRY(kernels_->loadElements());
    HORING_ASSIGN(parts_, PinnedMemory::allocate(wait_.gpu(), kSquareBytes));
    HORING_ASSIGN(squares_, allocate(kSquareBytes, "partial sums"));
    return {};
  }
  bool isHost() const override { return false; }
  Status error() const override { return error_; }
  Status checkNotRecorded() const override {
    const OutsideOfGraphs outside(api());
    HORING_ASSIGN(const uint64_t graph, gpu().recordedGraph(stream_));
    if (graph == 0) return {};
    return makeStatus(
        Code::kInvalidUsage,
        "stream %p, of memory.stream, records a graph, of which calls of this client cannot be a "
        "part: expected the end of the recording before",
        stream_);
  }

  Result<std::byte*> allocate(size_t bytes, const char* what) override;
  void release(std::byte* at, size_t bytes) noexcept override;

  Status convert(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
                 size_t count) override {
    if (from_type == to_type) return copy(to, from, count * bytesOf(to_type));
    return launch(ElementWork::kConvert, from, from_type, to, to_type, count);
  }
  Status accumulate(void* sum, const void* added, horingDataType_t type, size_t count,
                    double factor) override {
    return launch(ElementWork::kAccumulate, added, type, sum, type, count, factor);
  }
  Status scale(void* values, double factor, horingDataType_t type, size_t count) override {
    return launch(ElementWork::kScale, values, type, values, type, count, factor);
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return {};
    const OnGpu on(gpu());
    return work(
        [&] { return check(api().copy(cudaAddress(to), cudaAddress(from), bytes, stream_), "copying"); });
  }
  Status clear(void* at, size_t bytes) override {
    if (bytes == 0) return {};
    const OnGpu on(gpu());
    return work(
        [&] { return check(api().memory_set(cudaAddress(at), 0, bytes, stream_), "clearing memory"); });
  }
  Status addSquares(const void* values, horingDataType_t type, size_t count) override {
    const ElementCall call{ElementWork::kAddSquares, typeOf(type), typeOf(type), values, squares_, count, 1};
    return count == 0 ? Status() : launch(call, kSquareBlocks);
  }
  Result<Squares> takeSquares() override;

  Status checkReadable(const void* memory, const char* what, const std::string& of) const override {
    if (isOnGpu(memory)) return {};
    return makeStatus(Code::kInvalidArgument,
                      "%s of %s is at %p, which is not memory of GPU %d: expected that", what, of.c_str(),
                      memory, gpu().number());
  }
  Status checkTakeable(const void* memory, const std::string& of) const override {
    const MemoryPlace place = driver_.placeOf(memory);
    if (place.kind == MemoryKind::kHost || isOnGpu(memory)) return {};
    return makeStatus(
        Code::kInvalidArgument,
        "the values of %s are at %p, which is memory of GPU %d: expected memory of the host, or of "
        "GPU %d, which the client is on",
        of.c_str(), memory, place.device, gpu().number());
  }
  Status take(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
              size_t count) override;
  Status read(void* to, const void* from, size_t bytes) override {
    // Copies of other memory than pinned may block in the driver, which has no deadline.
    HORING_TRY(finish());
    HORING_TRY(copy(to, from, bytes));
    return finish();
  }
  Status write(void* to, const void* from, size_t bytes) override { return read(to, from, bytes); }
  Status finish() override { return wait_.until(stream_); }

  Result<std::unique_ptr<TransferStream>> makeStream() override {
    CudaStream own = nullptr;
    const OnGpu on(gpu());
    HORING_TRY(gpu().makeStream(own));
    return std::unique_ptr<TransferStream>(std::make_unique<GpuStream>(wait_, own, stream_));
  }

 private:
  static constexpr size_t kSquareBytes = kSquareParts * sizeof(SquareSum);
  const CudaDevice& gpu() const { return *wait_.gpu(); }
  const CudaApi& api() const { return gpu().api(); }
  Status check(int result, const char* tried) const { return api().check(result, tried); }
  static DataType typeOf(horingDataType_t type) { return static_cast<DataType>(type); }
  bool isOnGpu(const void* memory) const {
    const MemoryPlace place = driver_.placeOf(memory);
    return place.kind == MemoryKind::kManaged ||
           (place.kind == MemoryKind::kDevice && place.device == gpu().number());
  }
  Status launch(ElementWork work, const void* from, horingDataType_t from_type, void* to,
                horingDataType_t to_type, size_t count, double factor = 1) {
    if (count == 0) return {};
    const ElementCall call{work, typeOf(from_type), typeOf(to_type), from, to, count, factor};
    const size_t blocks = quotientUp(count, cuda::kElementThreads);
    return launch(call, static_cast<int32_t>(std::min(blocks, size_t{kMostBlocks})));
  }
  Status launch(const ElementCall& call, int32_t blocks) {
    return work([&] { return kernels_->launch(call, blocks, stream_); });
  }
  // Work that was left out would make what comes after it wrong.
  template <typename Body>
  Status work(Body body) {
    if (error_.ok()) error_ = wait_.named(body());
    return error_;
  }
  Result<std::byte*> own(size_t bytes, const char* what) const;

  const CudaDriver& driver_;
  const horingParoMemory_t memory_;
  const CudaStream stream_;
  HostWait wait_;
  std::shared_ptr<cuda::LaneGpu> kernels_;
  Status error_;
  std::byte* squares_ = nullptr;  // kSquareParts
  PinnedMemory parts_;            // to which the host gets them
};

Result<std::byte*> GpuBackend::own(size_t bytes, const char* what) const {
  CudaAddress at = 0;
  const OnGpu on(gpu());
  const int result = api().memory_allocate(&at, bytes);
  if (result == kOutOfMemory)
    return makeStatus(Code::kSystemError,
                      "there is no memory on GPU %d for %s, %zu bytes: take a strategy that needs less",
                      gpu().number(), what, bytes);
  HORING_TRY(check(result,
                   formatString("allocating %s, %zu bytes, on GPU %d", what, bytes, gpu().number()).c_str()));
  return reinterpret_cast<std::byte*>(at);
}

Result<std::byte*> GpuBackend::allocate(size_t bytes, const char* what) {
  HORING_ASSIGN(std::byte* const at, memory_.allocate ? allocateBy(memory_, bytes, what) : own(bytes, what));
  Status usable = isOnGpu(at)
                      ? clear(at, bytes)
                      : makeStatus(Code::kInvalidArgument,
                                   "memory.allocate gave address %p for %s, which is not memory of GPU %d",
                                   static_cast<void*>(at), what, gpu().number());
  if (usable.ok()) return at;
  release(at, bytes);
  return usable;
}

// Memory on which work does not end is not given back.
void GpuBackend::release(std::byte* at, size_t bytes) noexcept {
  if (!wait_.untilIdle(stream_)) return;
  const OnGpu on(gpu());
  if (memory_.allocate)
    memory_.release(at, bytes, memory_.context);
  else
    (void)api().memory_free(cudaAddress(at));
}

Result<Squares> GpuBackend::takeSquares() {
  HORING_TRY(copy(parts_.data(), squares_, kSquareBytes));
  HORING_TRY(clear(squares_, kSquareBytes));
  HORING_TRY(finish());
  Squares all;
  for (const SquareSum& part : std::span(reinterpret_cast<const SquareSum*>(parts_.data()), kSquareParts)) {
    all.sum += part.sum;
    all.finite &= part.not_finite == 0;
  }
  return all;
}

Status GpuBackend::take(const void* from, horingDataType_t from_type, void* to, horingDataType_t to_type,
                        size_t count) {
  if (isOnGpu(from)) return convert(from, from_type, to, to_type, count);
  if (from_type == to_type) return write(to, from, count * bytesOf(to_type));
  std::vector<std::byte> converted(count * bytesOf(to_type));
  paro::convert(from, from_type, converted.data(), to_type, count);
  return write(to, converted.data(), converted.size());
}

Result<int> gpuOf(const CudaApi& api, CudaStream stream) {
  if (stream == kStreamPerThread)
    return makeStatus(
        Code::kInvalidArgument,
        "memory.stream is cudaStreamPerThread, which is another stream in each thread: expected "
        "one of cudaStreamCreate, or NULL");
  Result<int> number = CudaDevice::ofStream(api, stream);
  if (stream || number.ok()) return number;
  return makeStatus(
      Code::kInvalidUsage,
      "memory.stream is NULL, and this thread has no current GPU: call cudaSetDevice before, or "
      "give a stream (%s)",
      number.status().message().c_str());
}

}  // namespace

Result<std::unique_ptr<Backend>> makeGpuBackend(const horingParoMemory_t& memory, const Grid& grid) {
  const CudaDriver* const driver = processDriver();
  if (!driver)
    return makeStatus(
        Code::kUnhandledCudaError,
        "memory.onGpu is set, and this process has loaded no CUDA driver (libcuda.so.1): expected a "
        "call of CUDA before, such as cudaSetDevice");
  HORING_TRY(driver->api().status());
  const CudaApi& api = driver->api().value();
  HORING_ASSIGN(const int number, gpuOf(api, memory.stream));
  HORING_ASSIGN(Gpu gpu, CudaDevice::open(api, number));
  auto backend = std::make_unique<GpuBackend>(*driver, memory, HostWait(std::move(gpu), grid));
  HORING_TRY(backend->open());
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace horing::paro
