#pragma once
// Memory of the current GPU, for programs that use CUDA, through the driver that they have loaded.
#include <cstddef>

namespace horing::nccl {

// The functions of cuda.h that are called.
class CurrentGpu {
 public:
  // Null if this process has not loaded a driver, or the driver has no GPU. Otherwise the calling thread has a context afterwards: the
  // current one, or the first GPU's primary context, as with CUDA's runtime.
  static const CurrentGpu* find() noexcept;
  // The number of the GPU that is current on the calling thread, without a change of it; -1: none.
  static int current() noexcept;
  // The PCI address as NCCL writes it: hexadecimal digits of domain, bus, device and function. 0: unknown.
  static unsigned long busOf(int gpu) noexcept;
  // Null: out of memory.
  void* allocate(size_t size) const noexcept;
  // False: unknown to the driver.
  bool release(void* ptr) const noexcept;

 private:
  static const CurrentGpu* loaded() noexcept;
  bool load(void* driver) noexcept;
  bool haveContext() const noexcept;
  int (*init_)(unsigned int) = nullptr;
  int (*get_current_)(void**) = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*get_attribute_)(int*, int, int) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*allocate_)(unsigned long long*, size_t) = nullptr;
  int (*free_)(unsigned long long) = nullptr;
};

}  // namespace horing::nccl
