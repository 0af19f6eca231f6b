#include "base/mapping.h"

#include <sys/mman.h>

namespace horing {

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void Mapping::populate() const {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data_, bytes_, MADV_POPULATE_WRITE) == 0) return;
#endif
  constexpr uint64_t kPage = 4096;
  for (uint64_t offset = 0; offset < bytes_; offset += kPage) {
    [[maybe_unused]] const std::byte touched = *const_cast<volatile std::byte*>(data_ + offset);
  }
}

}  // namespace horing
