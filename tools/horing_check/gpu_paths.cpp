#include "horing_check/gpu_paths.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "horing_check/numa_paths.h"
#include "topology/cpu_mask.h"
#include "topology/rails.h"

namespace horing::check {

namespace {

using GpuClock = std::chrono::steady_clock;

constexpr size_t kGpuBytes = 32 << 20;
constexpr int kGpuTurns = 3;
constexpr int64_t kMostCopyMs = 5000;
constexpr std::chrono::milliseconds kMostContextTime{1000};
// From cuda.h: CUDA_ERROR_NO_DEVICE, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP.
constexpr int kNoDevice = 100;
constexpr unsigned int kHostPortable = 1, kHostDeviceMap = 2;

// Pinned memory of the host, where the calling thread runs: fresh, since memory of the reserve (PinnedMemory) lies where it was first used.
// A resource.
class NearMemory {
 public:
  static Result<std::unique_ptr<NearMemory>> allocate(std::shared_ptr<const CudaDevice> device) {
    const CudaApi& api = device->api();
    const CudaDevice::Current current(*device);
    std::unique_ptr<NearMemory> memory(new NearMemory(std::move(device)));
    HORING_TRY(api.check(api.host_allocate(&memory->at_, kGpuBytes, kHostPortable | kHostDeviceMap),
                         "allocating pinned memory of the host"));
    HORING_TRY(api.check(api.host_device_address(&memory->address_, memory->at_, 0),
                         "mapping pinned memory of the host"));
    return memory;
  }
  ~NearMemory() {
    const CudaDevice::Current current(*device_);
    if (at_) (void)device_->api().host_free(at_);
  }
  NearMemory(const NearMemory&) = delete;
  NearMemory& operator=(const NearMemory&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(at_); }
  CudaAddress address() const { return address_; }

 private:
  explicit NearMemory(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}

  const std::shared_ptr<const CudaDevice> device_;
  void* at_ = nullptr;
  CudaAddress address_ = 0;
};

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
    HORING_ASSIGN(gpu->host_, NearMemory::allocate(gpu->device_));
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
    std::memset(host_->data(), static_cast<unsigned char>(~value), kGpuBytes);
    HORING_TRY(copy(host_->address(), memory_));
    HORING_TRY(wait());
    const unsigned char* const bytes = host_->data();
    return std::all_of(bytes, bytes + kGpuBytes, [&](unsigned char byte) { return byte == value; });
  }
  // Between its memory and pinned memory where the calling thread runs, there and back.
  Status addHost(const std::string& there, const std::string& back, const std::string& host,
                 std::vector<InsidePath>& paths) {
    HORING_ASSIGN(const std::unique_ptr<NearMemory> near, NearMemory::allocate(device_));
    HORING_ASSIGN(const double out, rateOf([&] { return copy(near->address(), memory_); }));
    HORING_ASSIGN(const double in, rateOf([&] { return copy(memory_, near->address()); }));
    paths.push_back({there, name(), host, out});
    paths.push_back({back, host, name(), in});
    return {};
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
  std::unique_ptr<NearMemory> host_;
};

// " of 31.5 GB/s", by the link or the slowest lanes between; empty: not known.
std::string widthOf(double gbytes_per_s) {
  return gbytes_per_s > 0 ? formatString(" of %.3g GB/s", gbytes_per_s) : "";
}
// Of the GPU's lanes, up to where memory is: beyond, graphs have assumptions only.
std::string widthOfLanes(const MachineGraph& graph, const Gpu& gpu) {
  const std::optional<int32_t> own = graph.find(NodeKind::kGpu, gpu.bus());
  for (const NodeKind kind : {NodeKind::kNuma, NodeKind::kPackage, NodeKind::kMachine})
    if (const int32_t place = own ? graph.within(*own, kind) : -1; place >= 0)
      return widthOf(graph.path(*own, place).gbytes_per_s);
  return "";
}

std::string kindOf(const MachineGraph& graph, const Gpu& from, const Gpu& to, bool reaches) {
  std::string kind = "GPU to GPU";
  const std::optional<int32_t> a = graph.find(NodeKind::kGpu, from.bus()),
                               b = graph.find(NodeKind::kGpu, to.bus());
  if (a && b) {
    const GraphPath path = graph.path(*a, *b);
    kind += std::string(", ") + pathKindName(path.kind) + widthOf(path.gbytes_per_s);
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

// Memory on the processors that this thread may use.
Status addHost(const MachineGraph& graph, Gpu& gpu, std::vector<InsidePath>& paths) {
  const std::string width = widthOfLanes(graph, gpu);
  return gpu.addHost("GPU to host" + width, "host to GPU" + width, "host", paths);
}

// Memory beside each adapter by which the GPU sends, once for each NUMA node: messages for TCP, or between sockets, pass through it. Moves
// the calling thread there; it may use `usual`.
Status addAdapters(const MachineGraph& graph, Gpu& gpu, const std::vector<int32_t>& usual,
                   const std::function<Status()>& in_time, std::vector<InsidePath>& paths) {
  const std::vector<int32_t> gpus = graph.ofKind(NodeKind::kGpu);
  const auto place = std::ranges::find(gpus, graph.find(NodeKind::kGpu, gpu.bus()).value_or(-1));
  if (place == gpus.end()) return {};
  const Rail rail = assignRails(graph, gpus)[static_cast<size_t>(place - gpus.begin())];
  const std::vector<NumaPlace> usable = numaPlaces(graph, usual);
  std::set<int32_t> seen;
  for (const int32_t adapter : rail.nics) {
    const int32_t numa = graph.within(adapter, NodeKind::kNuma);
    if (numa < 0 || !seen.insert(numa).second) continue;
    const auto near = std::ranges::find(usable, graph.node(numa).name, &NumaPlace::name);
    if (near == usable.end() || !moveTo(near->cpus)) continue;
    HORING_TRY(in_time());
    const std::string way = std::string(", ") + pathKindName(rail.path) + widthOfLanes(graph, gpu);
    HORING_TRY(gpu.addHost("GPU to memory beside its adapter" + way,
                           "memory beside a GPU's adapter to it" + way,
                           "memory beside " + graph.node(adapter).name, paths));
  }
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
  const Status too_late = makeStatus(Code::kTimeout, "too little time for all GPUs (--time)");
  const auto in_time = [&] { return GpuClock::now() < latest ? Status() : too_late; };
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int number = 0; number < count; ++number) {
    if (GpuClock::now() + kMostContextTime > latest) return too_late;
    HORING_ASSIGN(std::unique_ptr<Gpu> gpu, Gpu::open(api, number));
    gpus.push_back(std::move(gpu));
  }
  const std::vector<int32_t> usual = cpusOfThisThread();
  for (const auto& gpu : gpus) {
    HORING_TRY(in_time());
    HORING_TRY(addHost(graph, *gpu, paths));
    const Status added = addAdapters(graph, *gpu, usual, in_time, paths);
    (void)moveTo(usual);
    HORING_TRY(added);
  }
  for (const auto& from : gpus)
    for (const auto& to : gpus) {
      if (from == to) continue;
      HORING_TRY(in_time());
      HORING_TRY(addPair(graph, *from, *to, paths));
    }
  return {};
}

}  // namespace horing::check
