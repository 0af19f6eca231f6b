#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace horing::cuda {

// Gives pieces of one range of memory, and takes them back only all together from one on. A value; the range is another's.
class Arena {
 public:
  Arena() = default;
  // `where`: as in an error, "on GPU 0".
  Arena(std::byte* begin, size_t bytes, std::string where)
      : begin_(begin), bytes_(bytes), where_(std::move(where)) {}

  size_t bytes() const { return bytes_; }
  // Aligned as the range is, to 256 bytes at most.
  Result<std::byte*> allocate(size_t bytes) {
    if (bytes > bytes_ - used_)
      return makeStatus(Code::kUnhandledCudaError,
                        "%zu bytes %s are not to be had: %zu of the %zu bytes of this rank are in use", bytes,
                        where_.c_str(), used_, bytes_);
    std::byte* const at = begin_ + used_;
    used_ += std::min((bytes + kAlignment - 1) / kAlignment * kAlignment, bytes_ - used_);
    return at;
  }
  size_t used() const { return used_; }
  // Takes back what was given since so much was used; returns it, whose next pieces shall be zero again.
  std::span<std::byte> rewind(size_t used) {
    HORING_CHECK_LE(used, used_);
    const std::span<std::byte> back(begin_ + used, used_ - used);
    used_ = used;
    return back;
  }

 private:
  static constexpr size_t kAlignment = 256;
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
  std::string where_;
};

}  // namespace horing::cuda
