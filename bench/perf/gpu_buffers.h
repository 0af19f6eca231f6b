#pragma once
// A rank's buffers on a GPU, behind buffers of the host that have the same content where that matters: data is made and checked
// on the host, and copied.
#include <cstddef>
#include <memory>

#include "base/status.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace horing::perf {

// Whether this machine has a driver and a GPU.
bool hasGpu();

// A GPU and a stream on it. A resource of one thread.
class Gpu {
 public:
  // The one of this rank: ranks take GPUs in turn. Errors: kUnhandledCudaError.
  static Result<std::unique_ptr<Gpu>> ofRank(int rank);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int device() const { return device_->number(); }
  // While it exists the GPU is current on this thread.
  CudaDevice::Current current() const { return CudaDevice::Current(*device_); }
  void* stream() const { return stream_; }
  // Waits for all work on the stream.
  Status synchronize() const;

 private:
  friend class GpuMirror;
  Gpu(std::unique_ptr<CudaDriver> driver, std::shared_ptr<const CudaDevice> device)
      : driver_(std::move(driver)), device_(std::move(device)) {}

  std::unique_ptr<CudaDriver> driver_;
  std::shared_ptr<const CudaDevice> device_;
  CudaStream stream_ = nullptr;
};

// Memory of a GPU for each byte of a buffer of the host. The buffer and the GPU must outlive it.
class GpuMirror {
 public:
  static Result<std::unique_ptr<GpuMirror>> of(const Gpu& gpu, std::byte* host, size_t bytes);
  ~GpuMirror();
  GpuMirror(const GpuMirror&) = delete;
  GpuMirror& operator=(const GpuMirror&) = delete;

  bool covers(const std::byte* host) const { return host >= host_ && host < host_ + bytes_; }
  // The place on the GPU of the data at `host`.
  std::byte* onGpu(const std::byte* host) const;
  // [host, host + bytes), complete on return.
  Status toGpu(const std::byte* host, size_t bytes) const;
  Status toHost(std::byte* host, size_t bytes) const;

 private:
  GpuMirror(const Gpu& gpu, std::byte* host, size_t bytes) : gpu_(gpu), host_(host), bytes_(bytes) {}
  Status copy(CudaAddress to, CudaAddress from, size_t bytes) const;

  const Gpu& gpu_;
  std::byte* const host_;
  const size_t bytes_;
  CudaAddress at_ = 0;
};

}  // namespace horing::perf
