#pragma once
// Converts a stored element to a number to compute with, and back, rounding once. Gives the same bits as the host engine
// (engine/host/fold.h): one canonical NaN, -0 below +0, overflow as in engine/host/float_formats.h.
#include "engine/cuda/device.h"
#include "engine/host/float_formats.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace horing::cuda {

// Integers. Sums and products use the unsigned type of the size: they wrap around.
template <class E>
struct IntegerCodec {
  using Stored = E;
  using Value = E;
  HORING_DEVICE static Value read(Stored stored) { return stored; }
  HORING_DEVICE static Stored write(Value value) { return value; }
};

// float32 and float64. M: the integer of the same size.
template <class E, class M>
struct FloatCodec {
  using Stored = E;
  using Value = E;
  HORING_DEVICE static Value read(Stored stored) { return stored; }
  HORING_DEVICE static Stored write(Value value) {
    constexpr M kNan = sizeof(M) == 4 ? M{kFloat32QuietNan} : static_cast<M>(kFloat64QuietNan);
    return value == value ? value : bitsAs<E>(kNan);
  }
};

struct Bfloat16Codec {
  using Stored = uint16_t;
  using Value = float;
  HORING_DEVICE static Value read(Stored stored) {
    return bitsAs<float>(static_cast<uint32_t>(stored) << 16);
  }
  HORING_DEVICE static Stored write(Value value) {
    const uint32_t bits = bitsAs<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<Stored>(value == value ? rounded : kBfloat16Format.quiet_nan);
  }
};

// float16 and both float8. By integer arithmetic, except float16 on GPUs, which have instructions for it.
template <FloatFormat kFormat, class S>
struct SmallFloatCodec {
  using Stored = S;
  using Value = float;
  static constexpr int kFloatMantissaBits = 23;
  static constexpr uint32_t kSign = 1u << (kFormat.bits - 1);
  static constexpr int kShift = kFloatMantissaBits - kFormat.mantissa_bits;
  static constexpr uint32_t kMinNormal = static_cast<uint32_t>(kFormat.min_exponent + 127)
                                         << kFloatMantissaBits;

  HORING_DEVICE static Value read(Stored code) {
#ifdef __CUDA_ARCH__
    if constexpr (kFormat.bits == 16) return __half2float(__ushort_as_half(code));
#endif
    const uint32_t magnitude = code & (kSign - 1);
    const uint32_t sign = (code & kSign) << (32 - kFormat.bits);
    const uint32_t moved = magnitude << kShift;
    // Subnormal: with an implicit bit the number is too large by exactly the smallest normal number.
    const float subnormal = bitsAs<float>(moved + kMinNormal) - bitsAs<float>(kMinNormal);
    uint32_t bits = moved < (1u << kFloatMantissaBits) ? bitsAs<uint32_t>(subnormal)
                                                       : moved + (kMinNormal - (1u << kFloatMantissaBits));
    if (kFormat.has_infinity && magnitude == kFormat.top_magnitude) bits = 0x7f800000u;
    if (magnitude > kFormat.top_magnitude) bits = kFloat32QuietNan;
    return bitsAs<float>(bits | sign);
  }

  HORING_DEVICE static Stored write(Value value) {
    if (value != value) return static_cast<Stored>(kFormat.quiet_nan);
#ifdef __CUDA_ARCH__
    if constexpr (kFormat.bits == 16) return __half_as_ushort(__float2half_rn(value));
#endif
    const uint32_t bits = bitsAs<uint32_t>(value);
    const uint32_t raw = bits & 0x7fffffffu;
    const uint32_t magnitude = raw < kFormat.clamp_magnitude ? raw : kFormat.clamp_magnitude;
    const uint32_t exponent = magnitude & 0x7f800000u;
    const uint32_t binade = exponent > kMinNormal ? exponent : kMinNormal;
    // Added to this power of two, the last bit of the sum is the last bit that the format keeps: the adder rounds.
    const uint32_t anchor = binade + (static_cast<uint32_t>(kShift) << kFloatMantissaBits);
    const uint32_t units = bitsAs<uint32_t>(bitsAs<float>(magnitude) + bitsAs<float>(anchor)) - anchor;
    const uint32_t code = units + ((binade - kMinNormal) >> kShift);
    return static_cast<Stored>(code | (bits & 0x80000000u) >> (32 - kFormat.bits));
  }
};

// For min and max of floating point types of at most 16 bits: integers in the order of the numbers (-0 below +0), every NaN
// mapped to the one that wins. Nothing is rounded, so the result is one of the operands, bit for bit.
template <FloatFormat kFormat, class S, bool kNanIsHighest>
struct OrderCodec {
  using Stored = S;
  using Value = int32_t;
  static constexpr int32_t kMagnitude = (1 << (kFormat.bits - 1)) - 1;
  static constexpr int32_t kNanKey = kNanIsHighest ? kMagnitude : -kMagnitude - 1;

  // Its own inverse.
  HORING_DEVICE static int32_t turn(int32_t value) { return value < 0 ? value ^ kMagnitude : value; }
  HORING_DEVICE static Value read(Stored stored) {
    const int32_t magnitude = stored & kMagnitude;
    const int32_t value = stored > kMagnitude ? magnitude - kMagnitude - 1 : magnitude;
    return magnitude > static_cast<int32_t>(kFormat.top_magnitude) ? kNanKey : turn(value);
  }
  HORING_DEVICE static Stored write(Value key) {
    return static_cast<Stored>(key == kNanKey ? static_cast<int32_t>(kFormat.quiet_nan) : turn(key));
  }
};

}  // namespace horing::cuda
