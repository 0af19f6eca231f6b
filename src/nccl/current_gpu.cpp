#include "nccl/current_gpu.h"

#include <dlfcn.h>

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
         look(driver, "cuCtxSetCurrent", set_current_) && look(driver, "cuDevicePrimaryCtxRetain", retain_) &&
         look(driver, "cuMemAlloc_v2", allocate_) && look(driver, "cuMemFree_v2", free_) && init_(0) == 0;
}

bool CurrentGpu::haveContext() const noexcept {
  void* context = nullptr;
  if (get_current_(&context) == 0 && context) return true;
  return retain_(&context, 0) == 0 && set_current_(context) == 0;
}

const CurrentGpu* CurrentGpu::find() noexcept {
  static const CurrentGpu* const loaded = []() -> const CurrentGpu* {
    // Only what the program has: a driver that nobody uses stays out of its process.
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    static CurrentGpu gpu;
    return driver && gpu.load(driver) ? &gpu : nullptr;
  }();
  return loaded && loaded->haveContext() ? loaded : nullptr;
}

void* CurrentGpu::allocate(size_t size) const noexcept {
  unsigned long long address = 0;
  return allocate_(&address, size) == 0 ? reinterpret_cast<void*>(address) : nullptr;
}

bool CurrentGpu::release(void* ptr) const noexcept {
  return free_(reinterpret_cast<unsigned long long>(ptr)) == 0;
}

}  // namespace horing::nccl
