#include "cuda/driver.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

namespace horing {

namespace {

// From cuda.h.
constexpr int kSuccess = 0;
constexpr int kAttributeContext = 1, kAttributeMemoryType = 2, kAttributeIsManaged = 8,
              kAttributeDeviceOrdinal = 9;
constexpr unsigned int kMemoryTypeHost = 1, kMemoryTypeDevice = 2;

// The number of libraries loaded so far: changes with each load.
unsigned long long librariesLoaded() {
  unsigned long long count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<unsigned long long*>(result) = info->dlpi_adds;
        return 1;  // the first entry has the total
      },
      &count);
  return count;
}

}  // namespace

std::unique_ptr<CudaDriver> CudaDriver::ofProcess() {
  return open(RTLD_NOLOAD);
}

Result<std::unique_ptr<CudaDriver>> CudaDriver::load() {
  if (auto driver = open(0)) return driver;
  return makeStatus(Code::kUnhandledCudaError, "no CUDA driver (libcuda.so.1) on this machine");
}

std::unique_ptr<CudaDriver> CudaDriver::open(int dlopen_flags) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | dlopen_flags);
  if (!library) return nullptr;
  const auto get_attributes = reinterpret_cast<GetAttributes>(::dlsym(library, "cuPointerGetAttributes"));
  if (!get_attributes) {
    ::dlclose(library);
    return nullptr;
  }
  return std::unique_ptr<CudaDriver>(new CudaDriver(library, get_attributes));
}

CudaDriver::~CudaDriver() {
  ::dlclose(library_);
}

MemoryPlace CudaDriver::placeOf(const void* pointer) const {
  if (!pointer) return {};
  unsigned int type = 0, is_managed = 0;
  int device = -1;
  CudaContext context = nullptr;
  int attributes[] = {kAttributeMemoryType, kAttributeIsManaged, kAttributeDeviceOrdinal, kAttributeContext};
  void* values[] = {&type, &is_managed, &device, &context};
  const auto address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer));
  if (get_attributes_(4, attributes, values, address) != kSuccess) return {};
  if (is_managed) return {MemoryKind::kManaged, device};
  if (type == kMemoryTypeDevice) return {MemoryKind::kDevice, device, context};
  return {.is_pinned = type == kMemoryTypeHost};
}

const CudaDriver* CudaDriverOfProcess::driver() {
  if (const CudaDriver* known = driver_.load(std::memory_order_acquire)) return known;
  // Looking for an unloaded library searches folders: only after a new library was loaded.
  const unsigned long long loaded = librariesLoaded();
  if (loaded == libraries_seen_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!owner_) owner_ = CudaDriver::ofProcess();
  driver_.store(owner_.get(), std::memory_order_release);
  if (!owner_) libraries_seen_.store(loaded, std::memory_order_relaxed);
  return owner_.get();
}

const CudaDriver* processDriver() {
  static auto* const of_process = new CudaDriverOfProcess;  // never destroyed
  return of_process->driver();
}

}  // namespace horing
