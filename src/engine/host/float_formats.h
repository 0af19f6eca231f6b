#pragma once
// Bit patterns of the floating point types that C++20 has no name for, and their conversions from and to float32.
//
//   float16     1 sign, 5 exponent, 10 mantissa bits; IEEE 754 binary16.
//   bfloat16    1, 8, 7; the upper half of a float32.
//   float8e4m3  1, 4, 3; OCP "FN": no infinity, the largest number is 448, the only NaN is 0x7f (or 0xff).
//   float8e5m2  1, 5, 2; infinity is 0x7c, the largest number 57344.
//
// Widening is exact. Narrowing rounds to nearest, ties to even, with subnormal results. Too large values become infinity if the
// format has it, as in IEEE 754; in float8e4m3 they, and infinity, become the largest number. The sign of zero is kept. A NaN stays
// a NaN: narrowing yields `quiet_nan`, positive, whatever its sign and payload were.
//
// All functions are pure and thread-safe.
#include <cstdint>

namespace horing {

// A format of at most 16 bits. A *magnitude* is a bit pattern without its sign bit.
struct FloatFormat {
  int bits;
  int mantissa_bits;
  int min_exponent;        // of the smallest normal number: 2^min_exponent
  uint32_t top_magnitude;  // the largest that is not a NaN: infinity, or without infinity the largest number
  uint32_t quiet_nan;      // the result of narrowing any NaN
  uint32_t clamp_magnitude;  // float32 bits: all larger finite numbers narrow to the same result
  bool has_infinity;
};

inline constexpr FloatFormat kFloat16Format{16, 10, -14, 0x7c00, 0x7e00, 0x47800000, true};  // clamp 65536
inline constexpr FloatFormat kBfloat16Format{16,     7,          -126, 0x7f80,
                                             0x7fc0, 0x7f800000, true};                   // clamp infinity
inline constexpr FloatFormat kFloat8e4m3Format{8, 3, -6, 0x7e, 0x7f, 0x43e00000, false};  // clamp 448
inline constexpr FloatFormat kFloat8e5m2Format{8, 2, -14, 0x7c, 0x7e, 0x47800000, true};  // clamp 65536

// The NaN that a fold stores in float32 and float64.
inline constexpr uint32_t kFloat32QuietNan = 0x7fc00000;
inline constexpr uint64_t kFloat64QuietNan = 0x7ff8000000000000;

float float16ToFloat(uint16_t bits);
float bfloat16ToFloat(uint16_t bits);
float float8e4m3ToFloat(uint8_t bits);
float float8e5m2ToFloat(uint8_t bits);

uint16_t floatToFloat16(float value);
uint16_t floatToBfloat16(float value);
uint8_t floatToFloat8e4m3(float value);
uint8_t floatToFloat8e5m2(float value);

}  // namespace horing
