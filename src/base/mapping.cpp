#include "base/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace horing {

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void Mapping::populate() const {
  if (populatePages(data_, bytes_)) return;
  constexpr uint64_t kPage = 4096;
  for (uint64_t offset = 0; offset < bytes_; offset += kPage) {
    [[maybe_unused]] const std::byte touched = *const_cast<volatile std::byte*>(data_ + offset);
  }
}

uint64_t Mapping::residentBytes() const {
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::array<unsigned char, 1024> is_there{};
  uint64_t pages = 0;
  for (uint64_t offset = 0; offset < bytes_; offset += page * is_there.size()) {
    const uint64_t bytes = std::min(bytes_ - offset, page * is_there.size());
    is_there.fill(0);
    if (::mincore(data_ + offset, bytes, is_there.data()) != 0) return bytes_;
    pages += static_cast<uint64_t>(
        std::count_if(is_there.begin(), is_there.end(), [](unsigned char each) { return (each & 1) != 0; }));
  }
  return pages * page;
}

bool populatePages([[maybe_unused]] std::byte* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  static const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(data) % page;
  int result = -1;
  do result = ::madvise(data - before, before + bytes, MADV_POPULATE_WRITE);
  while (result != 0 && errno == EINTR);
  return result == 0;
#else
  return false;
#endif
}

}  // namespace horing
