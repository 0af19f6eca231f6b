#pragma once
// Memory that kernels of one GPU can access, in which the host lays out queues and plans.
#include <algorithm>
#include <cstddef>
#include <span>

#include "base/status.h"

namespace horing::cuda {

// Owns its allocations. One thread at a time.
class Memory {
 public:
  virtual ~Memory() = default;
  // The alignment and granularity of allocations.
  static constexpr size_t kAlignment = 256;
  static constexpr size_t roomOf(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
  // Zeroed, aligned. Errors: out of memory, with the bytes requested and the bytes in use.
  virtual Result<std::byte*> allocate(size_t bytes) = 0;
  // used(): bytes allocated. rewind(): frees all allocations made since `used` bytes were in use, which no kernel may use.
  virtual size_t used() const = 0;
  virtual Status rewind(size_t used) = 0;
  // Copies from and to the host. Blocks; only while no kernel uses the range.
  virtual Status write(void* to, const void* from, size_t bytes) = 0;
  virtual Status read(void* to, const void* from, size_t bytes) = 0;
  virtual size_t bytes() const = 0;
};

// Copies an array to this memory and returns its address, also if it is empty.
template <class T>
Result<T*> place(Memory& memory, std::span<const T> items) {
  HORING_ASSIGN(std::byte* const at, memory.allocate(std::max<size_t>(items.size(), 1) * sizeof(T)));
  if (!items.empty()) HORING_TRY(memory.write(at, items.data(), items.size_bytes()));
  return reinterpret_cast<T*>(at);
}

}  // namespace horing::cuda
