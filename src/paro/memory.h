#pragma once
// Counted memory of the client.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace horing::paro {

// A resource: zeroed memory, aligned for vectors; its bytes are added to a counter while it exists.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory() {
    if (data_) *counter_ -= bytes_;
    std::free(data_);
  }

  // `counter` must outlive the memory. 0 bytes are allowed and allocate nothing.
  static Result<Memory> allocate(size_t bytes, uint64_t* counter) {
    Memory memory;
    if (bytes == 0) return memory;
    memory.data_ = static_cast<std::byte*>(
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    if (!memory.data_)
      return makeStatus(Code::kSystemError,
                        "there is no memory for %zu bytes of a bucket: take a strategy that needs less",
                        bytes);
    std::memset(memory.data_, 0, bytes);
    memory.bytes_ = bytes;
    memory.counter_ = counter;
    *counter += bytes;
    return memory;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  static constexpr size_t kAlignment = 64;
  void swap(Memory& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(counter_, other.counter_);
  }

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t* counter_ = nullptr;
};

}  // namespace horing::paro
