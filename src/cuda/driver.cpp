#include "cuda/driver.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

namespace horing {

namespace {

// Of cuda.h.
constexpr int kSuccess = 0;
constexpr int kAttributeContext = 1, kAttributeMemoryType = 2, kAttributeIsManaged = 8,
              kAttributeDeviceOrdinal = 9;
constexpr unsigned int kMemoryTypeHost = 1, kMemoryTypeDevice = 2;

// How many libraries the process has loaded so far: changes whenever one is.
unsigned long long librariesLoaded() {
  unsigned long long count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<unsigned long long*>(result) = info->dlpi_adds;
        return 1;  // the first one knows
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

CudaDriver::Attributes CudaDriver::attributesOf(const void* pointer) const {
  Attributes found;
  if (!pointer) return {};
  int attributes[] = {kAttributeMemoryType, kAttributeIsManaged, kAttributeDeviceOrdinal, kAttributeContext};
  void* values[] = {&found.type, &found.is_managed, &found.device, &found.context};
  const auto address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer));
  return get_attributes_(4, attributes, values, address) == kSuccess ? found : Attributes();
}

MemoryPlace CudaDriver::placeOf(const void* pointer) const {
  const Attributes found = attributesOf(pointer);
  if (found.is_managed) return {MemoryKind::kManaged, found.device};
  return found.type == kMemoryTypeDevice ? MemoryPlace{MemoryKind::kDevice, found.device} : MemoryPlace{};
}

CudaContext CudaDriver::contextOf(const void* pointer) const {
  const Attributes found = attributesOf(pointer);
  return found.type == kMemoryTypeDevice && !found.is_managed ? found.context : nullptr;
}

bool CudaDriver::isPinned(const void* pointer) const {
  const Attributes found = attributesOf(pointer);
  return found.type == kMemoryTypeHost && !found.is_managed;
}

const CudaDriver* CudaDriverOfProcess::driver() {
  if (const CudaDriver* known = driver_.load(std::memory_order_acquire)) return known;
  // To look for a library by name searches folders when it is not loaded: only when another has come.
  const unsigned long long loaded = librariesLoaded();
  if (loaded == libraries_seen_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!owner_) owner_ = CudaDriver::ofProcess();
  driver_.store(owner_.get(), std::memory_order_release);
  if (!owner_) libraries_seen_.store(loaded, std::memory_order_relaxed);
  return owner_.get();
}

}  // namespace horing
