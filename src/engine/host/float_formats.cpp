#include "engine/host/float_formats.h"

#include <algorithm>
#include <bit>

namespace horing {

namespace {

constexpr int kFloatMantissaBits = 23;
constexpr uint32_t kFloatInfinity = 0x7f800000;

float widen(const FloatFormat& format, uint32_t code) {
  const uint32_t sign_bit = 1u << (format.bits - 1);
  const uint32_t sign = (code & sign_bit) != 0 ? 0x80000000u : 0;
  const uint32_t magnitude = code & (sign_bit - 1);
  if (magnitude > format.top_magnitude) return std::bit_cast<float>(sign | kFloat32QuietNan);
  if (format.has_infinity && magnitude == format.top_magnitude)
    return std::bit_cast<float>(sign | kFloatInfinity);
  const int shift = kFloatMantissaBits - format.mantissa_bits;
  if (magnitude >> format.mantissa_bits != 0) {
    const uint32_t rebias = static_cast<uint32_t>(format.min_exponent - 1 + 127) << kFloatMantissaBits;
    return std::bit_cast<float>(sign | ((magnitude << shift) + rebias));
  }
  // Subnormal: a whole number of units of 2^(min_exponent - mantissa_bits). Computed in double, where that unit is a normal number.
  const int unit_exponent = format.min_exponent - format.mantissa_bits;
  const double unit = std::bit_cast<double>(static_cast<uint64_t>(unit_exponent + 1023) << 52);
  const double value = static_cast<double>(magnitude) * unit;
  return static_cast<float>(sign != 0 ? -value : value);
}

uint32_t narrow(const FloatFormat& format, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > kFloatInfinity) return format.quiet_nan;
  magnitude = std::min(magnitude, format.clamp_magnitude);
  const uint32_t sign = bits >> 31 << (format.bits - 1);

  // The unit of the last place the result keeps: that of the number's own binade, or of the subnormals.
  const int min_field = format.min_exponent + 127;
  const int field = static_cast<int>(magnitude >> kFloatMantissaBits);
  const int binade = std::max(field, min_field);
  const uint64_t fraction = magnitude & 0x7fffffu;
  const uint64_t significand = field == 0 ? fraction : fraction | 0x800000u;
  const int shift = kFloatMantissaBits - format.mantissa_bits + binade - std::max(field, 1);
  if (shift > 40) return sign;  // far below half of the smallest subnormal
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t units = (significand + half - 1 + ((significand >> shift) & 1)) >> shift;
  // A carry out of the mantissa correctly moves to the next binade, up to infinity.
  const uint64_t below = static_cast<uint64_t>(binade - min_field) << format.mantissa_bits;
  return sign | static_cast<uint32_t>(below + units);
}

}  // namespace

float float16ToFloat(uint16_t bits) {
  return widen(kFloat16Format, bits);
}
float bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
float float8e4m3ToFloat(uint8_t bits) {
  return widen(kFloat8e4m3Format, bits);
}
float float8e5m2ToFloat(uint8_t bits) {
  return widen(kFloat8e5m2Format, bits);
}

uint16_t floatToFloat16(float value) {
  return static_cast<uint16_t>(narrow(kFloat16Format, value));
}
uint16_t floatToBfloat16(float value) {
  return static_cast<uint16_t>(narrow(kBfloat16Format, value));
}
uint8_t floatToFloat8e4m3(float value) {
  return static_cast<uint8_t>(narrow(kFloat8e4m3Format, value));
}
uint8_t floatToFloat8e5m2(float value) {
  return static_cast<uint8_t>(narrow(kFloat8e5m2Format, value));
}

}  // namespace horing
