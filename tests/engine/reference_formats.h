#pragma once
// The small floating point formats again, computed in a different way than in src/engine/host/float_formats.h: numbers are sums of
// powers of two in double, and rounding searches the nearest neighbour in the list of all numbers. Slow.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/types.h"

namespace horing::test {

// A format by its field widths. `largest_code` is the largest magnitude that is a finite number.
struct ReferenceFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  uint32_t largest_code = 0;
  bool has_infinity = false;  // the code after largest_code
  bool saturates = false;     // overflow narrows to largest_code
  uint32_t nan = 0;           // what narrowing makes of a NaN

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t signBit() const { return 1u << (exponent_bits + mantissa_bits); }
};

inline ReferenceFormat referenceFormat(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {5, 10, 15, 0x7bff, true, false, 0x7e00};
    case DataType::kBfloat16:
      return {8, 7, 127, 0x7f7f, true, false, 0x7fc0};
    case DataType::kFloat8e4m3:
      return {4, 3, 7, 0x7e, false, true, 0x7f};
    default:
      return {5, 2, 15, 0x7b, true, false, 0x7e};
  }
}

inline double referenceWiden(const ReferenceFormat& format, uint32_t code) {
  const uint32_t magnitude = code & (format.signBit() - 1);
  const double sign = (code & format.signBit()) != 0 ? -1.0 : 1.0;
  if (magnitude == format.largest_code + 1 && format.has_infinity)
    return sign * std::numeric_limits<double>::infinity();
  if (magnitude > format.largest_code) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude % (1u << format.mantissa_bits));
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - format.bias - format.mantissa_bits);
}

// Narrows by search. Keeps the list of numbers of one format.
class ReferenceNarrowing {
 public:
  explicit ReferenceNarrowing(DataType type) : format_(referenceFormat(type)) {
    for (uint32_t code = 0; code <= format_.largest_code; ++code)
      numbers_.push_back(referenceWiden(format_, code));
    // The number that would follow if the exponent went on; nearer to it than to the largest is overflow.
    numbers_.push_back(2 * numbers_.back() - numbers_[numbers_.size() - 2]);
  }

  const ReferenceFormat& format() const { return format_; }

  uint32_t operator()(double value) const {
    if (std::isnan(value)) return format_.nan;
    const uint32_t sign = std::signbit(value) ? format_.signBit() : 0;
    const double magnitude = std::fabs(value);
    const uint32_t overflow = format_.saturates ? format_.largest_code : format_.largest_code + 1;
    if (magnitude >= numbers_.back()) return sign | overflow;
    uint32_t below = 0;
    uint32_t above = static_cast<uint32_t>(numbers_.size()) - 1;
    while (above - below > 1) {
      const uint32_t middle = (below + above) / 2;
      (numbers_[middle] <= magnitude ? below : above) = middle;
    }
    const double to_below = magnitude - numbers_[below];
    const double to_above = numbers_[above] - magnitude;
    uint32_t code = to_below < to_above ? below : above;
    if (to_below == to_above) code = below % 2 == 0 ? below : above;
    return sign | (code > format_.largest_code ? overflow : code);
  }

 private:
  ReferenceFormat format_;
  std::vector<double> numbers_;
};

}  // namespace horing::test
