#pragma once
// The CUDA driver, if the process uses one. It is looked up at run time, so that one library serves machines with and without a GPU, and
// horing loads nothing.
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/api.h"

namespace horing {

// The kind of memory. kHost: also pinned memory, and memory unknown to the driver. kManaged: accessible to CPU and GPU.
enum class MemoryKind { kHost, kDevice, kManaged };

struct MemoryPlace {
  MemoryKind kind = MemoryKind::kHost;
  int device = -1;                // its number in the driver's order; -1: host
  CudaContext context = nullptr;  // for kDevice; null: no context (cuMemCreate, cudaMallocAsync)
  bool is_pinned = false;         // for kHost: kernels can access it

  bool operator==(const MemoryPlace&) const = default;
  // Both are on the same GPU, or on the host. Contexts are ignored: memory of a GPU may have none.
  bool isWith(const MemoryPlace& other) const { return kind == other.kind && device == other.device; }
};

// The driver that is loaded in this process. A resource: keeps it loaded. Any thread.
class CudaDriver {
 public:
  // Null while the process has not loaded a driver: then there is no device memory. Does not load the driver.
  static std::unique_ptr<CudaDriver> ofProcess();
  // Loads the driver, for programs that use GPUs themselves. kUnhandledCudaError: there is none.
  static Result<std::unique_ptr<CudaDriver>> load();
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;
  ~CudaDriver();

  // Takes less than a microsecond. Memory unknown to the driver (not initialised, or not its pointer) is kHost.
  MemoryPlace placeOf(const void* pointer) const;
  // The other functions. Error: this driver lacks one. Valid as long as the driver.
  const Result<CudaApi>& api() const { return api_; }

 private:
  // cuda.h's types as plain C++ types, so that a build needs no toolkit; tests/cuda compares them with cuda.h if there is one.
  using GetAttributes = int (*)(unsigned int count, int* attributes, void** values,
                                unsigned long long pointer);

  CudaDriver(void* library, GetAttributes get_attributes)
      : library_(library), get_attributes_(get_attributes), api_(CudaApi::lookUp(library)) {}
  static std::unique_ptr<CudaDriver> open(int dlopen_flags);

  void* library_;
  GetAttributes get_attributes_;
  Result<CudaApi> api_;
};

// The driver of this process, also if it is loaded after the first query. Any thread.
class CudaDriverOfProcess {
 public:
  CudaDriverOfProcess() = default;
  CudaDriverOfProcess(const CudaDriverOfProcess&) = delete;
  CudaDriverOfProcess& operator=(const CudaDriverOfProcess&) = delete;

  // The driver of the process; null while none is loaded: then all memory is host memory. Without a driver this takes tens of nanoseconds,
  // so query once per call and not per buffer.
  const CudaDriver* driver();

 private:
  std::mutex mutex_;
  std::unique_ptr<CudaDriver> owner_;
  // The release after setting owner_ pairs with the acquire in driver().
  std::atomic<const CudaDriver*> driver_ = nullptr;
  std::atomic<unsigned long long> libraries_seen_ =
      0;  // the number of libraries at the last search without a driver
};

// The driver that this process has loaded; null while there is none. Looked for once, by all of the library. Any thread, also during exit.
const CudaDriver* processDriver();

}  // namespace horing
