#pragma once
// A file of shared memory, mapped once in each process.
//
// Ranks that are threads of one process share the mapping of a file. Both ends of a connection then use the same addresses, so
// ThreadSanitizer, which orders accesses by address, sees that the flags of a queue order the data that they announce. (Atomic
// operations that are lock-free order accesses through two mappings of the same memory as well: [atomics.lockfree] in the C++
// standard.)
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/mapping.h"
#include "base/status.h"

namespace horing {

// A shared reference to a mapping. Belongs to the process that made it.
class ShmMap {
 public:
  ShmMap() = default;
  explicit ShmMap(std::shared_ptr<const Mapping> map) : map_(std::move(map)) {}

  std::byte* data() const { return map_ ? map_->data() : nullptr; }
  uint64_t bytes() const { return map_ ? map_->bytes() : 0; }
  uint64_t residentBytes() const { return map_ ? map_->residentBytes() : 0; }

 private:
  std::shared_ptr<const Mapping> map_;
};

// Maps a whole file of `bytes` bytes. Any thread. `path` names the file in errors.
Result<ShmMap> mapShmFile(int fd, uint64_t bytes, const std::string& path);

}  // namespace horing
