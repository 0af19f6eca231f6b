#pragma once
// Numbers as elements of every data type, independently of the library that is measured.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace horing::perf {

// Rounds to nearest even. `value` must be finite and, rounded, within the type's range.
uint64_t encodeElement(DataType type, double value);
// The number that an element represents; for tests.
double decodeElement(DataType type, uint64_t bits);

// Bits of precision, with the hidden one: every integer of at most 2^bits is exact. Floating point types
// only.
int precisionBits(DataType type);

// How many representable values two elements are apart; 0 for +0 and -0. NaN is far from everything but its
// own bits.
uint64_t elementDistance(DataType type, uint64_t a, uint64_t b);

// `integer * 2^-halvings` for small integers without a search for exponents each time.
class ElementTable {
 public:
  static constexpr int kHalvings = 3;
  // For |integer| <= limit and halvings in 0 .. kHalvings-1.
  ElementTable(DataType type, int64_t limit);
  uint64_t at(int64_t integer, int halvings) const {
    return entries_[static_cast<size_t>((integer + limit_) * kHalvings + halvings)];
  }

 private:
  int64_t limit_;
  std::vector<uint16_t> entries_;
};

}  // namespace horing::perf
