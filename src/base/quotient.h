#pragma once
#include <cstddef>

namespace horing {

// Rounded up. Not (dividend + divisor - 1) / divisor: counts near the top of size_t must not wrap. GPU kernels use it, too.
constexpr size_t quotientUp(size_t dividend, size_t divisor) {
  return dividend / divisor + (dividend % divisor != 0);
}

// Elements of the first numerator / denominator of `count`: a whole number of alignments unless it is all.
constexpr size_t alignedShare(size_t count, size_t numerator, size_t denominator, size_t alignment) {
  if (numerator == denominator) return count;
  const size_t exact = count / denominator * numerator + count % denominator * numerator / denominator;
  return exact - exact % alignment;
}

}  // namespace horing
