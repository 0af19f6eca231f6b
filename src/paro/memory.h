#pragma once
// Counted memory of the client.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "paro/backend.h"

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
    if (!data_) return;
    *counter_ -= bytes_;
    backend_->release(data_, bytes_);
  }

  // `backend` and `counter` must outlive the memory. 0 bytes are allowed and allocate nothing. `what` it is for, for errors.
  static Result<Memory> allocate(Backend& backend, const char* what, size_t bytes, uint64_t* counter) {
    Memory memory;
    if (bytes == 0) return memory;
    HORING_ASSIGN(memory.data_, backend.allocate(bytes, what));
    memory.backend_ = &backend;
    memory.bytes_ = bytes;
    memory.counter_ = counter;
    *counter += bytes;
    return memory;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(Memory& other) {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(counter_, other.counter_);
  }

  Backend* backend_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t* counter_ = nullptr;
};

}  // namespace horing::paro
