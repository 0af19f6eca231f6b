#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/cuda/memory.h"

namespace horing::cuda {

// A bump allocator: frees only by rewinding to an earlier position. A value; the memory is borrowed.
class Arena {
 public:
  Arena() = default;
  // `where`: for errors, "on GPU 0".
  Arena(std::byte* begin, size_t bytes, std::string where)
      : begin_(begin), bytes_(bytes), where_(std::move(where)) {}

  size_t bytes() const { return bytes_; }
  // Aligned like the range, to at most 256 bytes.
  Result<std::byte*> allocate(size_t bytes) {
    if (bytes > bytes_ - used_)
      return makeStatus(Code::kUnhandledCudaError,
                        "%zu bytes %s are not to be had: %zu of the %zu bytes of this rank are in use", bytes,
                        where_.c_str(), used_, bytes_);
    std::byte* const at = begin_ + used_;
    used_ += std::min(Memory::roomOf(bytes), bytes_ - used_);
    return at;
  }
  size_t used() const { return used_; }
  // Frees all allocations made since `used` bytes were in use. Returns that range, which the caller must zero.
  std::span<std::byte> rewind(size_t used) {
    HORING_CHECK_LE(used, used_);
    const std::span<std::byte> back(begin_ + used, used_ - used);
    used_ = used;
    return back;
  }

 private:
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
  std::string where_;
};

}  // namespace horing::cuda
