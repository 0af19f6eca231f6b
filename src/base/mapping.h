#pragma once
// Owner of one mapping of memory.
#include <cstddef>
#include <cstdint>
#include <utility>

namespace horing {

class Mapping {
 public:
  Mapping() = default;
  // Takes over what mmap() gave.
  Mapping(void* data, uint64_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // Puts every page in place, now, and changes none: others may be writing already. Of memory that may be written.
  void populate() const;

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace horing
