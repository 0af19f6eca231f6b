#pragma once
// Memory that kernels of one GPU reach, as the host that lays out queues and plans in it sees it.
#include <algorithm>
#include <cstddef>
#include <span>

#include "base/status.h"

namespace horing::cuda {

// Owns all that it gave. One thread at a time.
class Memory {
 public:
  virtual ~Memory() = default;
  // Zeroed, aligned to 256 bytes. Errors: out of memory, with the bytes wanted and those already given.
  virtual Result<std::byte*> allocate(size_t bytes) = 0;
  // How much was given; and takes back all that was given since so much was, which no kernel may know of.
  virtual size_t used() const = 0;
  virtual Status rewind(size_t used) = 0;
  // Between here and the host. Blocks; only while no kernel uses the range.
  virtual Status write(void* to, const void* from, size_t bytes) = 0;
  virtual Status read(void* to, const void* from, size_t bytes) = 0;
  virtual size_t bytes() const = 0;
};

// Copies an array there; its address, also of none.
template <class T>
Result<T*> place(Memory& memory, std::span<const T> items) {
  HORING_ASSIGN(std::byte* const at, memory.allocate(std::max<size_t>(items.size(), 1) * sizeof(T)));
  if (!items.empty()) HORING_TRY(memory.write(at, items.data(), items.size_bytes()));
  return reinterpret_cast<T*>(at);
}

}  // namespace horing::cuda
