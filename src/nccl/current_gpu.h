#pragma once
// Memory of the GPU that is current, for programs that use CUDA: with the driver that they have loaded.
#include <cstddef>

namespace horing::nccl {

// What cuda.h declares, as far as it is called.
class CurrentGpu {
 public:
  // Null where this process has loaded no driver, or none that has a GPU. The calling thread then has a context: the one that is
  // current, or the first GPU's primary one, as CUDA's runtime would take.
  static const CurrentGpu* find() noexcept;
  // Null: no memory.
  void* allocate(size_t size) const noexcept;
  // Whether the driver knew it.
  bool release(void* ptr) const noexcept;

 private:
  bool load(void* driver) noexcept;
  bool haveContext() const noexcept;
  int (*init_)(unsigned int) = nullptr;
  int (*get_current_)(void**) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*allocate_)(unsigned long long*, size_t) = nullptr;
  int (*free_)(unsigned long long) = nullptr;
};

}  // namespace horing::nccl
