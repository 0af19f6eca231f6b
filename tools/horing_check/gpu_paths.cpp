#include "horing_check/gpu_paths.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "cuda/device.h"
#include "cuda/driver.h"

namespace horing::check {

namespace {

using GpuClock = std::chrono::steady_clock;

constexpr size_t kGpuBytes = 32 << 20;
constexpr int kGpuTurns = 3;
constexpr int64_t kMostCopyMs = 5000;
constexpr std::chrono::milliseconds kMostContextTime{1000};
constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

// A GPU with memory, a stream, and pinned memory of the host. A resource.
class Gpu {
 public:
  static Result<std::unique_ptr<Gpu>> open(const CudaApi& api, int number) {
    std::unique_ptr<Gpu> gpu(new Gpu());
    HORING_ASSIGN(gpu->device_, CudaDevice::open(api, number));
    HORING_ASSIGN(gpu->bus_, CudaDevice::busOf(api, number));
    HORING_TRY(gpu->device_->makeStream(gpu->stream_));
    const CudaDevice::Current current(*gpu->device_);
    HORING_TRY(api.check(api.memory_allocate(&gpu->memory_, kGpuBytes), "allocating memory of a GPU"));
    HORING_ASSIGN(gpu->host_, PinnedMemory::allocate(gpu->device_, kGpuBytes));
    return gpu;
  }
  ~Gpu() {
    if (!device_) return;
    const CudaDevice::Current current(*device_);
    if (stream_) (void)device_->api().stream_destroy(stream_);
    if (memory_ != 0) (void)device_->api().memory_free(memory_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const std::string& bus() const { return bus_; }
  std::string name() const { return "GPU " + std::to_string(device_->number()); }
  // Both ways; copies then take the direct way.
  bool reaches(const Gpu& other) const {
    return device_->reach(*other.device_).ok() && other.device_->reach(*device_).ok();
  }

  // All bytes of its memory.
  Status fill(unsigned char value) {
    const CudaDevice::Current current(*device_);
    HORING_TRY(device_->api().check(device_->api().memory_set(memory_, value, kGpuBytes, stream_),
                                    "filling memory of a GPU"));
    return wait();
  }
  Result<bool> holds(unsigned char value) {
    std::memset(host_.data(), static_cast<unsigned char>(~value), kGpuBytes);
    HORING_TRY(copy(host_.address(), memory_));
    HORING_TRY(wait());
    const auto* const bytes = reinterpret_cast<const unsigned char*>(host_.data());
    return std::all_of(bytes, bytes + kGpuBytes, [&](unsigned char byte) { return byte == value; });
  }
  Result<double> rateToHost() {
    return rateOf([&] { return copy(host_.address(), memory_); });
  }
  Result<double> rateFromHost() {
    return rateOf([&] { return copy(memory_, host_.address()); });
  }
  Result<double> rateTo(const Gpu& other) {
    return rateOf([&] {
      const CudaDevice::Current current(*device_);
      return device_->push(*other.device_, bytesAt(other.memory_), {bytesAt(memory_), kGpuBytes}, stream_);
    });
  }

 private:
  Gpu() = default;

  static std::byte* bytesAt(CudaAddress address) { return reinterpret_cast<std::byte*>(address); }
  Status copy(CudaAddress to, CudaAddress from) {
    const CudaDevice::Current current(*device_);
    return device_->api().check(device_->api().copy(to, from, kGpuBytes, stream_), "copying memory of a GPU");
  }
  Status wait() {
    return device_->synchronize(
        stream_, [] { return Status(); }, Deadline::after(clock_, kMostCopyMs));
  }
  // The best of some.
  template <typename Enqueue>
  Result<double> rateOf(const Enqueue& enqueue) {
    double best_s = 0;
    for (int turn = 0; turn < kGpuTurns; ++turn) {
      const GpuClock::time_point begin = GpuClock::now();
      HORING_TRY(enqueue());
      HORING_TRY(wait());
      const double took_s = std::chrono::duration<double>(GpuClock::now() - begin).count();
      best_s = turn == 0 ? took_s : std::min(best_s, took_s);
    }
    return static_cast<double>(kGpuBytes) / std::max(best_s, 1e-9);
  }

  SteadyClock clock_;
  std::shared_ptr<const CudaDevice> device_;
  std::string bus_;
  CudaStream stream_ = nullptr;
  CudaAddress memory_ = 0;
  PinnedMemory host_;
};

std::string kindOf(const MachineGraph& graph, const Gpu& from, const Gpu& to, bool reaches) {
  std::string kind = "GPU to GPU";
  const std::optional<int32_t> a = graph.find(NodeKind::kGpu, from.bus()),
                               b = graph.find(NodeKind::kGpu, to.bus());
  if (a && b) {
    const GraphPath path = graph.path(*a, *b);
    kind += std::string(", ") + pathKindName(path.kind);
    if (path.gbytes_per_s > 0) kind += formatString(" of %.3g GB/s", path.gbytes_per_s);
  }
  return kind + (reaches ? "" : ", without peer access");
}

Status addPair(const MachineGraph& graph, Gpu& from, Gpu& to, std::vector<InsidePath>& paths) {
  const bool reaches = from.reaches(to);
  constexpr unsigned char kOld = 0, kNew = 0xa5;
  HORING_TRY(from.fill(kNew));
  HORING_TRY(to.fill(kOld));
  InsidePath path{kindOf(graph, from, to, reaches), from.name(), to.name()};
  HORING_ASSIGN(path.bytes_per_s, from.rateTo(to));
  HORING_ASSIGN(const bool arrived, to.holds(kNew));
  path.is_wrong = !arrived;
  paths.push_back(std::move(path));
  return {};
}

}  // namespace

Status addGpuPaths(const MachineGraph& graph, GpuClock::time_point latest, std::vector<InsidePath>& paths) {
  const Result<std::unique_ptr<CudaDriver>> driver = CudaDriver::load();
  if (!driver.ok()) return {};
  HORING_ASSIGN(const CudaApi api, driver.value()->api());
  const int started = api.init(0);
  if (started == kNoDevice) return {};
  HORING_TRY(api.check(started, "starting CUDA"));
  int count = 0;
  HORING_TRY(api.check(api.device_count(&count), "counting GPUs"));
  const auto late = [&] { return GpuClock::now() >= latest; };
  const Status too_late = makeStatus(Code::kTimeout, "too little time for all GPUs (--time)");
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int number = 0; number < count; ++number) {
    if (GpuClock::now() + kMostContextTime > latest) return too_late;
    HORING_ASSIGN(std::unique_ptr<Gpu> gpu, Gpu::open(api, number));
    gpus.push_back(std::move(gpu));
  }
  for (const auto& gpu : gpus) {
    if (late()) return too_late;
    HORING_ASSIGN(const double out, gpu->rateToHost());
    HORING_ASSIGN(const double in, gpu->rateFromHost());
    paths.push_back({"GPU to host", gpu->name(), "host", out});
    paths.push_back({"host to GPU", "host", gpu->name(), in});
  }
  for (const auto& from : gpus)
    for (const auto& to : gpus) {
      if (from == to) continue;
      if (late()) return too_late;
      HORING_TRY(addPair(graph, *from, *to, paths));
    }
  return {};
}

}  // namespace horing::check
