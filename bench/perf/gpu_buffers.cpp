#include "perf/gpu_buffers.h"

namespace horing::perf {

namespace {

// Of cuda.h: a stream that the default one does not wait for.
constexpr unsigned int kStreamNonBlocking = 1;

CudaAddress addressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

Result<int> countGpus(const CudaDriver& driver) {
  HORING_TRY(driver.api().status());
  const CudaApi& api = driver.api().value();
  HORING_TRY(api.check(api.init(0), "cuInit"));
  int count = 0;
  HORING_TRY(api.check(api.device_count(&count), "cuDeviceGetCount"));
  if (count == 0) return makeStatus(Code::kUnhandledCudaError, "this machine has a CUDA driver and no GPU");
  return count;
}

}  // namespace

bool hasGpu() {
  const auto driver = CudaDriver::load();
  return driver.ok() && countGpus(*driver.value()).ok();
}

Result<std::unique_ptr<Gpu>> Gpu::ofRank(int rank) {
  HORING_ASSIGN(std::unique_ptr<CudaDriver> driver, CudaDriver::load());
  HORING_ASSIGN(const int count, countGpus(*driver));
  const CudaApi& api = driver->api().value();
  HORING_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::open(api, rank % count));
  std::unique_ptr<Gpu> gpu(new Gpu(std::move(driver), std::move(device)));
  const CudaDevice::Current current(*gpu->device_);
  HORING_TRY(gpu->device_->api().check(gpu->device_->api().stream_create(&gpu->stream_, kStreamNonBlocking),
                                       "cuStreamCreate"));
  return gpu;
}

Gpu::~Gpu() {
  const CudaDevice::Current current(*device_);
  if (stream_) device_->api().stream_destroy(stream_);
}

Status Gpu::synchronize() const {
  const CudaDevice::Current current(*device_);
  return device_->api().check(device_->api().stream_synchronize(stream_), "cuStreamSynchronize");
}

Result<std::unique_ptr<GpuMirror>> GpuMirror::of(const Gpu& gpu, std::byte* host, size_t bytes) {
  std::unique_ptr<GpuMirror> mirror(new GpuMirror(gpu, host, bytes));
  {
    const CudaDevice::Current current(*gpu.device_);
    HORING_TRY(gpu.device_->api().check(gpu.device_->api().memory_allocate(&mirror->at_, bytes),
                                        "cuMemAlloc of a buffer: use a smaller --maxbytes"));
  }
  HORING_TRY(mirror->toGpu(host, bytes));
  return mirror;
}

GpuMirror::~GpuMirror() {
  const CudaDevice::Current current(*gpu_.device_);
  if (at_ != 0) gpu_.device_->api().memory_free(at_);
}

std::byte* GpuMirror::onGpu(const std::byte* host) const {
  return reinterpret_cast<std::byte*>(at_ + static_cast<CudaAddress>(host - host_));
}

Status GpuMirror::toGpu(const std::byte* host, size_t bytes) const {
  return copy(addressOf(onGpu(host)), addressOf(host), bytes);
}

Status GpuMirror::toHost(std::byte* host, size_t bytes) const {
  return copy(addressOf(host), addressOf(onGpu(host)), bytes);
}

Status GpuMirror::copy(CudaAddress to, CudaAddress from, size_t bytes) const {
  if (bytes == 0) return {};
  {
    const CudaDevice::Current current(*gpu_.device_);
    HORING_TRY(
        gpu_.device_->api().check(gpu_.device_->api().copy(to, from, bytes, gpu_.stream_), "cuMemcpyAsync"));
  }
  return gpu_.synchronize();
}

}  // namespace horing::perf
