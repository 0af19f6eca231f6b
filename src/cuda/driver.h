#pragma once
// The CUDA driver, if the process uses one. It is looked up at run time, so that one library serves machines with and
// without a GPU, and nothing is loaded on account of horing.
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/api.h"

namespace horing {

// Where memory lies. kHost: also pinned memory, and what no driver knows. kManaged: CPU and GPU both reach it.
enum class MemoryKind { kHost, kDevice, kManaged };

struct MemoryPlace {
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;                // its number in the driver's order; -1: of the host
  CudaContext context = nullptr;  // of kDevice; null: it is of none (cuMemCreate, cudaMallocAsync)
  bool is_pinned = false;         // of kHost: kernels read it where it is

  bool operator==(const MemoryPlace&) const = default;
  // Both are of the same GPU, or of the host. Contexts do not count: memory of one GPU may be of one or of none.
  bool isWith(const MemoryPlace& other) const { return kind == other.kind && device == other.device; }
};

// The driver that is loaded in this process. A resource: keeps it loaded. Any thread.
class CudaDriver {
 public:
  // Null while the process has not loaded a driver: then it has no device memory. Loads none itself.
  static std::unique_ptr<CudaDriver> ofProcess();
  // Loads one if there is one, for programs that use GPUs of their own accord. kUnhandledCudaError: there is none.
  static Result<std::unique_ptr<CudaDriver>> load();
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;
  ~CudaDriver();

  // In less than a microsecond. What the driver cannot tell (it is not initialised, the pointer is none of its) is kHost.
  MemoryPlace placeOf(const void* pointer) const;
  // Its other functions. Error: this driver lacks one. Valid as long as the driver.
  const Result<CudaApi>& api() const { return api_; }

 private:
  // cuda.h's types under the names that the language has for them, so that a build needs no toolkit; tests/cuda compares them
  // with cuda.h where there is one.
  using GetAttributes = int (*)(unsigned int count, int* attributes, void** values,
                                unsigned long long pointer);

  CudaDriver(void* library, GetAttributes get_attributes)
      : library_(library), get_attributes_(get_attributes), api_(CudaApi::lookUp(library)) {}
  static std::unique_ptr<CudaDriver> open(int dlopen_flags);

  void* library_;
  GetAttributes get_attributes_;
  Result<CudaApi> api_;
};

// The driver of this process, also when it comes later than the first question. Any thread.
class CudaDriverOfProcess {
 public:
  CudaDriverOfProcess() = default;
  CudaDriverOfProcess(const CudaDriverOfProcess&) = delete;
  CudaDriverOfProcess& operator=(const CudaDriverOfProcess&) = delete;

  // The driver of the process, null while it has loaded none: then all memory is the host's. Without a driver it takes tens of
  // nanoseconds, so ask once for a call and not for each buffer.
  const CudaDriver* driver();

 private:
  std::mutex mutex_;
  std::unique_ptr<CudaDriver> owner_;
  // Release where owner_ was set pairs with acquire in driver().
  std::atomic<const CudaDriver*> driver_ = nullptr;
  std::atomic<unsigned long long> libraries_seen_ = 0;  // loaded when there was no driver among them
};

}  // namespace horing
