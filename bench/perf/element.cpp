#include "perf/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace horing::perf {

namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};

Format formatOf(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {5, 10};
    case DataType::kBfloat16:
      return {8, 7};
    case DataType::kFloat8e4m3:
      return {4, 3};
    case DataType::kFloat8e5m2:
      return {5, 2};
    case DataType::kFloat64:
      return {11, 52};
    default:
      return {8, 23};
  }
}

uint64_t encodeFloat(Format format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t sign =
      std::signbit(value) ? uint64_t{1} << (format.exponent_bits + format.mantissa_bits) : 0;
  if (value == 0) return sign;
  const double magnitude = std::fabs(value);
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place; a carry to the next power of two moves into the exponent by itself.
  const auto units =
      static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  const uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  if (units < hidden) return sign | units;  // subnormal
  return sign | ((static_cast<uint64_t>(exponent + bias) << format.mantissa_bits) + (units - hidden));
}

double decodeFloat(Format format, uint64_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  const uint64_t mantissa = bits & (hidden - 1);
  const auto exponent = static_cast<int>((bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1));
  const double units = static_cast<double>(exponent == 0 ? mantissa : mantissa + hidden);
  const double magnitude = std::ldexp(units, std::max(exponent, 1) - bias - format.mantissa_bits);
  return bits >> (format.exponent_bits + format.mantissa_bits) & 1 ? -magnitude : magnitude;
}

// Whether the bits are infinity or NaN; e4m3 has no infinity and one NaN of each sign.
bool isSpecial(DataType type, uint64_t bits) {
  if (type == DataType::kFloat8e4m3) return (bits & 0x7f) == 0x7f;
  const Format format = formatOf(type);
  const uint64_t all_ones = (uint64_t{1} << format.exponent_bits) - 1;
  return ((bits >> format.mantissa_bits) & all_ones) == all_ones;
}

}  // namespace

uint64_t encodeElement(DataType type, double value) {
  if (type == DataType::kFloat64) return std::bit_cast<uint64_t>(value);
  if (type == DataType::kFloat32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (isFloatingPoint(type)) return encodeFloat(formatOf(type), value);
  const auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  const size_t width = dataTypeBytes(type) * 8;
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

double decodeElement(DataType type, uint64_t bits) {
  if (isFloatingPoint(type)) return decodeFloat(formatOf(type), bits);
  switch (type) {
    case DataType::kInt8:
      return static_cast<int8_t>(bits);
    case DataType::kInt32:
      return static_cast<int32_t>(bits);
    case DataType::kInt64:
      return static_cast<double>(static_cast<int64_t>(bits));
    default:
      return static_cast<double>(bits);
  }
}

int precisionBits(DataType type) {
  return formatOf(type).mantissa_bits + 1;
}

uint64_t elementDistance(DataType type, uint64_t a, uint64_t b) {
  if (a == b) return 0;
  if (!isFloatingPoint(type)) return a > b ? a - b : b - a;
  if (isSpecial(type, a) || isSpecial(type, b)) return UINT64_MAX;
  // Sign and magnitude to a number line on which neighbours differ by one.
  const uint64_t sign = uint64_t{1} << (dataTypeBytes(type) * 8 - 1);
  const auto place = [sign](uint64_t bits) {
    const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
  };
  const int64_t x = place(a);
  const int64_t y = place(b);
  return x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
               : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
}

ElementTable::ElementTable(DataType type, int64_t limit)
    : limit_(limit), entries_(static_cast<size_t>(2 * limit + 1) * kHalvings) {
  for (int64_t integer = -limit; integer <= limit; ++integer)
    for (int halvings = 0; halvings < kHalvings; ++halvings)
      entries_[static_cast<size_t>((integer + limit) * kHalvings + halvings)] =
          static_cast<uint16_t>(encodeElement(type, std::ldexp(static_cast<double>(integer), -halvings)));
}

}  // namespace horing::perf
