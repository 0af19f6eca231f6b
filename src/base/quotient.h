#pragma once
#include <cstddef>

namespace horing {

// Rounded up. Not (dividend + divisor - 1) / divisor: counts near the top of size_t must not wrap. Kernels ask, too.
constexpr size_t quotientUp(size_t dividend, size_t divisor) {
  return dividend / divisor + (dividend % divisor != 0);
}

}  // namespace horing
