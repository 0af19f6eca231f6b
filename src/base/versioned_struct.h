#pragma once
// Structs of the C API that begin with their `size`: a caller may have been compiled with the header of an older library (fewer fields) or of a
// newer one (more).
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <optional>

namespace horing {

// `least`: the bytes of the struct in its first version.
template <typename Struct>
constexpr bool mayBeSizeOf(size_t size, size_t least) {
  constexpr size_t kMost = 4096;  // more than any version will have
  return size >= least && size <= kMost && size % alignof(Struct) == 0;
}

// Copies the fields that both know; `own` keeps the others. The offset of a further field that has none of the `undefined` values; nothing: no
// such field.
template <typename Struct>
std::optional<size_t> takeKnownFields(const Struct& given, Struct& own,
                                      std::initializer_list<int> undefined) {
  const size_t size = given.size;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&given);
  std::memcpy(&own, bytes, std::min(size, sizeof own));
  for (size_t at = sizeof own; at < size; at += sizeof(int)) {
    int value = 0;
    std::memcpy(&value, bytes + at, sizeof value);
    if (std::find(undefined.begin(), undefined.end(), value) == undefined.end()) return at;
  }
  return std::nullopt;
}

// The same of a result: copies the fields that both know, behind the `size`, to the caller's struct.
template <typename Struct>
void giveKnownFields(const Struct& own, Struct& given) {
  const size_t known = std::min(given.size, sizeof own);
  std::memcpy(reinterpret_cast<std::byte*>(&given) + sizeof given.size,
              reinterpret_cast<const std::byte*>(&own) + sizeof own.size, known - sizeof own.size);
}

}  // namespace horing
