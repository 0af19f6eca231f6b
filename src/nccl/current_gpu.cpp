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
         look(driver, "cuCtxPushCurrent_v2", push_) && look(driver, "cuDevicePrimaryCtxRetain", retain_) &&
         look(driver, "cuMemAlloc_v2", allocate_) && look(driver, "cuMemFree_v2", free_) && init_(0) == 0;
}

bool CurrentGpu::haveContext() const noexcept {
  void* context = nullptr;
  if (get_current_(&context) == 0 && context) return true;
  return retain_(&context, 0) == 0 && push_(context) == 0;
}

const CurrentGpu* CurrentGpu::find() noexcept {
  static std::mutex mutex;
  static CurrentGpu gpu;
  static bool is_loaded = false;  // under mutex; a program may load a driver at any time
  const std::lock_guard lock(mutex);
  if (!is_loaded) {
    // Only a driver that the program has loaded: horing does not load one.
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    is_loaded = driver && gpu.load(driver);
  }
  return is_loaded && gpu.haveContext() ? &gpu : nullptr;
}

void* CurrentGpu::allocate(size_t size) const noexcept {
  unsigned long long address = 0;
  return allocate_(&address, size) == 0 ? reinterpret_cast<void*>(address) : nullptr;
}

bool CurrentGpu::release(void* ptr) const noexcept {
  return free_(reinterpret_cast<unsigned long long>(ptr)) == 0;
}

}  // namespace horing::nccl
