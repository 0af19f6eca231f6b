#include "nccl/current_gpu.h"

#include <dlfcn.h>

#include <mutex>

namespace horing::nccl {

namespace {
template <typename Function>
bool look(void* driver, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(driver, name));
  return function != nullptr;
}
}  // namespace

bool CurrentGpu::load(void* driver) noexcept {
  return look(driver, "cuInit", init_) && look(driver, "cuCtxGetCurrent", get_current_) &&
         look(driver, "cuCtxGetDevice", get_device_) &&
         look(driver, "cuDeviceGetAttribute", get_attribute_) && look(driver, "cuCtxPushCurrent_v2", push_) &&
         look(driver, "cuDevicePrimaryCtxRetain", retain_) && look(driver, "cuMemAlloc_v2", allocate_) &&
         look(driver, "cuMemFree_v2", free_) && init_(0) == 0;
}

bool CurrentGpu::haveContext() const noexcept {
  void* context = nullptr;
  if (get_current_(&context) == 0 && context) return true;
  return retain_(&context, 0) == 0 && push_(context) == 0;
}

const CurrentGpu* CurrentGpu::loaded() noexcept {
  static std::mutex mutex;
  static CurrentGpu gpu;
  static bool is_loaded = false;  // under mutex; a program may load a driver at any time
  const std::lock_guard lock(mutex);
  if (!is_loaded) {
    // Only a driver that the program has loaded: horing does not load one.
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    is_loaded = driver && gpu.load(driver);
  }
  return is_loaded ? &gpu : nullptr;
}

const CurrentGpu* CurrentGpu::find() noexcept {
  const CurrentGpu* const gpu = loaded();
  return gpu && gpu->haveContext() ? gpu : nullptr;
}

int CurrentGpu::current() noexcept {
  const CurrentGpu* const gpu = loaded();
  void* context = nullptr;
  int device = -1;
  // Queried first, since it is no error if there is none.
  const bool is_set = gpu && gpu->get_current_(&context) == 0 && context;
  return is_set && gpu->get_device_(&device) == 0 ? device : -1;
}

unsigned long CurrentGpu::busOf(int number) noexcept {
  const CurrentGpu* const gpu = number < 0 ? nullptr : loaded();
  // CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, _BUS_ID, _DEVICE_ID
  int domain = 0, bus = 0, device = 0;
  if (!gpu || gpu->get_attribute_(&domain, 50, number) != 0 || gpu->get_attribute_(&bus, 33, number) != 0 ||
      gpu->get_attribute_(&device, 34, number) != 0)
    return 0;
  return static_cast<unsigned long>(domain) << 20 | static_cast<unsigned long>(bus) << 12 |
         static_cast<unsigned long>(device) << 4;
}

void* CurrentGpu::allocate(size_t size) const noexcept {
  unsigned long long address = 0;
  return allocate_(&address, size) == 0 ? reinterpret_cast<void*>(address) : nullptr;
}

bool CurrentGpu::release(void* ptr) const noexcept {
  return free_(reinterpret_cast<unsigned long long>(ptr)) == 0;
}

}  // namespace horing::nccl
