#pragma once
// The open descriptors of this process, for tests that check that none is left.
#include <filesystem>
#include <iterator>

namespace horing::test {

inline int entriesOf(const char* folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// That by which it looks is among them.
inline int openDescriptors() {
  return entriesOf("/proc/self/fd");
}

}  // namespace horing::test
