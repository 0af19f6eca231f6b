#pragma once
// Memory of the caller's functions.
#include <cstdint>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

inline constexpr size_t kAlignment = 64;

// Not zeroed.
inline Result<std::byte*> allocateBy(const horingParoMemory_t& memory, size_t bytes, const char* what) {
  auto* const at = static_cast<std::byte*>(memory.allocate(bytes, memory.context));
  if (!at)
    return makeStatus(Code::kSystemError,
                      "memory.allocate gave NULL for %s, %zu bytes: take a strategy that needs less", what,
                      bytes);
  if (reinterpret_cast<uintptr_t>(at) % kAlignment == 0) return at;
  memory.release(at, bytes, memory.context);
  return makeStatus(Code::kInvalidArgument,
                    "memory.allocate gave address %p for %s: expected a multiple of %zu",
                    static_cast<void*>(at), what, kAlignment);
}

}  // namespace horing::paro
