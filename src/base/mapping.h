#pragma once
// Owner of one mapping of memory.
#include <cstddef>
#include <cstdint>
#include <utility>

namespace horing {

class Mapping {
 public:
  Mapping() = default;
  // Takes ownership of a result of mmap().
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
  // Faults in every page now without changing it: other processes may be writing already. For writable mappings.
  void populate() const;
  // Of a shared file's pages here, those that the system has.
  uint64_t residentBytes() const;

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Faults in the pages of these bytes of a writable mapping without changing them; in a file with holes, they are allocated. False: there is
// no room for them, or the kernel is older than Linux 5.14, which can only raise SIGBUS; errno says which (EFAULT: no room in the file).
bool populatePages(std::byte* data, size_t bytes);

}  // namespace horing
