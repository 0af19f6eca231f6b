#pragma once
// How a register of stored elements is widened to registers to compute with, and narrowed back.
//
// A codec names `Part`, a vector to compute with, and `kParts`, how many of them one register of stored elements fills; read()
// widens and write() narrows, rounding once. Each codec chooses which element goes to which lane of which part: folding is lane by
// lane, so only read() and write() must agree.
//
// NaN: floating point results are canonical (float_formats.h), because which of two NaN operands the hardware passes on depends on
// the order in which the compiler places them, and the bits of a result must not.
#include "engine/host/float_formats.h"
#include "engine/host/fold_vectors.h"

namespace horing {
namespace {

constexpr int kFloatMantissaBits = 23;

// Integers, unchanged.
template <class I, class E>
struct IntegerCodec {
  using Isa = I;
  using Part = typename Isa::template Of<E>;
  static constexpr int kParts = 1;
  static void read(typename Isa::Bits bits, Part* part) { part[0] = as<Part>(bits); }
  static typename Isa::Bits write(const Part* part) { return as<typename Isa::Bits>(part[0]); }
};

// float32 and float64. E is the type, M the integer of the same size.
template <class I, class E, class M>
struct FloatCodec {
  using Isa = I;
  using Part = typename Isa::template Of<E>;
  using Mask = typename Isa::template Of<M>;
  static constexpr int kParts = 1;
  static constexpr M kQuietNan = sizeof(M) == 4 ? M{kFloat32QuietNan} : static_cast<M>(kFloat64QuietNan);

  static void read(typename Isa::Bits bits, Part* part) { part[0] = as<Part>(bits); }
  static typename Isa::Bits write(const Part* part) {
    const Part nan = as<Part>(Isa::template splat<M>(kQuietNan));
    return as<typename Isa::Bits>(part[0] == part[0] ? part[0] : nan);
  }
};

// float32 and float64 with the sign flipped, so that a maximum becomes a minimum.
template <class I, class E, class M>
struct NegatedFloatCodec : FloatCodec<I, E, M> {
  using Base = FloatCodec<I, E, M>;
  using typename Base::Isa;
  using typename Base::Mask;
  using typename Base::Part;
  static Part negate(Part value) {
    return as<Part>(as<Mask>(value) ^ Isa::template splat<M>(M{1} << (sizeof(M) * 8 - 1)));
  }
  static void read(typename Isa::Bits bits, Part* part) { part[0] = negate(as<Part>(bits)); }
  static typename Isa::Bits write(const Part* part) {
    const Part value = negate(part[0]);
    return Base::write(&value);
  }
};

// For min and max of 8 and 16-bit floating point types: signed integers in the order of the numbers (-0 below
// +0), with every NaN mapped to the integer that wins. Nothing is rounded, so the result is one of the
// operands, bit for bit.
template <class I, const FloatFormat& kFormat, class E, E kNanKey>
struct OrderCodec {
  using Isa = I;
  using Part = typename Isa::template Of<E>;
  static constexpr int kParts = 1;
  static constexpr E kMagnitude = static_cast<E>((1 << (kFormat.bits - 1)) - 1);

  // Its own inverse.
  static Part turn(Part value) {
    const Part negative = value < Isa::template splat<E>(0);
    return value ^ (negative & Isa::template splat<E>(kMagnitude));
  }
  static void read(typename Isa::Bits bits, Part* part) {
    const Part value = as<Part>(bits);
    const auto is_nan =
        (value & Isa::template splat<E>(kMagnitude)) > Isa::template splat<E>(kFormat.top_magnitude);
    part[0] = is_nan ? Isa::template splat<E>(kNanKey) : turn(value);
  }
  static typename Isa::Bits write(const Part* part) {
    const auto is_nan = part[0] == Isa::template splat<E>(kNanKey);
    return as<typename Isa::Bits>(is_nan ? Isa::template splat<E>(kFormat.quiet_nan) : turn(part[0]));
  }
};

// bfloat16: the even elements in one float32 part, the odd ones in another.
template <class I>
struct Bfloat16Codec {
  using Isa = I;
  using Bits = typename Isa::Bits;
  using Part = typename Isa::template Of<float>;
  static constexpr int kParts = 2;
  static void read(Bits bits, Part* part) {
    part[0] = as<Part>(bits << 16);
    part[1] = as<Part>(bits & 0xffff0000u);
  }
  static Bits write(const Part* part) { return (round(part[0]) >> 16) | (round(part[1]) & 0xffff0000u); }

 private:
  // To the upper half, rounded to nearest even.
  static Bits round(Part value) {
    const Bits bits = as<Bits>(value);
    const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return value == value ? rounded : Isa::template splat<uint32_t>(kFloat32QuietNan);
  }
};

// float16 and both float8 by integer arithmetic, for any machine: element j of each 32 bits in float32 part j.
template <class I, const FloatFormat& kFormat>
struct SplitCodec {
  using Isa = I;
  using Bits = typename Isa::Bits;
  using Part = typename Isa::template Of<float>;
  static constexpr int kParts = 32 / kFormat.bits;
  static constexpr uint32_t kSign = 1u << (kFormat.bits - 1);
  static constexpr int kShift = kFloatMantissaBits - kFormat.mantissa_bits;
  static constexpr uint32_t kMinNormal = static_cast<uint32_t>(kFormat.min_exponent + 127)
                                         << kFloatMantissaBits;

  static void read(Bits bits, Part* part) {
    unrolled<kParts>([&](auto j) { part[j.value] = widen(bits >> (j.value * kFormat.bits)); });
  }
  static Bits write(const Part* part) {
    Bits bits = narrow(part[0]);
    unrolled<kParts, 1>([&](auto j) { bits |= narrow(part[j.value]) << (j.value * kFormat.bits); });
    return bits;
  }

 private:
  // Reads the low kFormat.bits of each lane.
  static Part widen(Bits code) {
    const Bits magnitude = code & (kSign - 1);
    const Bits sign = (code & kSign) << (32 - kFormat.bits);
    const Bits moved = magnitude << kShift;
    const Bits normal = moved + (kMinNormal - (1u << kFloatMantissaBits));
    // Subnormal: with an implicit bit the number is too large by exactly the smallest normal number.
    const Bits with_bit = moved + kMinNormal;
    const Bits subnormal = as<Bits>(as<Part>(with_bit) - as<Part>(Isa::template splat<uint32_t>(kMinNormal)));
    Bits value = Isa::above(splat(1u << kFloatMantissaBits), moved) ? subnormal : normal;
    if (kFormat.has_infinity) value = magnitude == kFormat.top_magnitude ? splat(0x7f800000u) : value;
    value = Isa::above(magnitude, splat(kFormat.top_magnitude)) ? splat(kFloat32QuietNan) : value;
    return as<Part>(value | sign);
  }

  static Bits narrow(Part number) {
    const Bits bits = as<Bits>(number);
    const Bits raw = bits & 0x7fffffffu;
    const Bits magnitude = Isa::smaller(raw, splat(kFormat.clamp_magnitude));
    const Bits exponent = magnitude & 0x7f800000u;
    const Bits binade = Isa::larger(exponent, splat(kMinNormal));
    // After adding this power of two, the last bit of the sum is the last bit that the format keeps: the adder rounds.
    const Bits anchor = binade + (static_cast<uint32_t>(kShift) << kFloatMantissaBits);
    const Bits units = as<Bits>(as<Part>(magnitude) + as<Part>(anchor)) - anchor;
    const Bits code = units + ((binade - kMinNormal) >> kShift);
    const Bits sign = (bits & 0x80000000u) >> (32 - kFormat.bits);
    return number == number ? (code | sign) : splat(kFormat.quiet_nan);
  }

  static Bits splat(uint32_t value) { return Isa::template splat<uint32_t>(value); }
};

// float16 on machines that convert it: Isa::widenHalf and Isa::narrowHalf, which are inverse to each other.
template <class I>
struct HalfCodec {
  using Isa = I;
  using Part = typename Isa::template Of<float>;
  static constexpr int kParts = 2;
  static void read(typename Isa::Bits bits, Part* part) { Isa::widenHalf(bits, part); }
  static typename Isa::Bits write(const Part* part) {
    const Part nan = as<Part>(Isa::template splat<uint32_t>(kFloat32QuietNan));
    const Part clean[2] = {part[0] == part[0] ? part[0] : nan, part[1] == part[1] ? part[1] : nan};
    return Isa::narrowHalf(clean);
  }
};

// Both float8 on machines that convert float16: every float8 is a float16 with fewer bits (e4m3: scaled by
// 2^-8). Rounding happens in float32; the narrowing to float16 that follows is exact.
template <class I, const FloatFormat& kFormat>
struct Float8Codec {
  using Isa = I;
  using Bits = typename Isa::Bits;
  using Words = typename Isa::template Of<uint16_t>;
  using SignedWords = typename Isa::template Of<int16_t>;
  using Part = typename Isa::template Of<float>;
  static constexpr int kParts = 4;
  static constexpr bool kScaled = kFormat.mantissa_bits == 3;
  static constexpr int kShift = kFloatMantissaBits - kFormat.mantissa_bits;
  static constexpr uint32_t kMinNormal = static_cast<uint32_t>(kFormat.min_exponent + 127)
                                         << kFloatMantissaBits;
  // e4m3's NaN is the pattern after the one of 448, the number 480.
  static constexpr uint32_t kNan = kScaled ? 0x43f00000u : kFloat32QuietNan;

  static void read(Bits bits, Part* part) {
    const Words words = as<Words>(bits);
    Isa::widenHalf(as<Bits>(toHalf(words << 8)), part);
    Isa::widenHalf(as<Bits>(toHalf(words & uint16_t{0xff00})), part + 2);
    if (kScaled) {
      unrolled<kParts>([&](auto j) { part[j.value] *= Isa::template splat<float>(256.0f); });
    }
  }
  static Bits write(const Part* part) {
    Part rounded[kParts];
    unrolled<kParts>([&](auto j) { rounded[j.value] = round(part[j.value]); });
    const Words even = fromHalf(as<Words>(Isa::narrowHalf(rounded)));
    const Words odd = fromHalf(as<Words>(Isa::narrowHalf(rounded + 2)));
    return as<Bits>((even >> 8) | odd);
  }

 private:
  // From the code in the upper byte of each word.
  static Words toHalf(Words upper) {
    if constexpr (!kScaled) return upper;
    const Words half = as<Words>(as<SignedWords>(upper) >> 1) & uint16_t{0xbf80};
    const auto is_nan = (half & uint16_t{0x3f80}) == Isa::template splat<uint16_t>(0x3f80);
    return is_nan ? Isa::template splat<uint16_t>(0x7e00) : half;
  }
  // To the upper byte of each word; the lower one becomes zero.
  static Words fromHalf(Words half) {
    if constexpr (!kScaled) return half & uint16_t{0xff00};
    return ((half << 1) & uint16_t{0x7f00}) | (half & uint16_t{0x8000});
  }

  static Part round(Part number) {
    const Bits bits = as<Bits>(number);
    const Bits raw = bits & 0x7fffffffu;
    const Bits magnitude = Isa::smaller(raw, splat(kFormat.clamp_magnitude));
    const Bits exponent = magnitude & 0x7f800000u;
    const Bits binade = Isa::larger(exponent, splat(kMinNormal));
    const Part anchor = as<Part>(binade + (static_cast<uint32_t>(kShift) << kFloatMantissaBits));
    const Part rounded = (as<Part>(magnitude) + anchor) - anchor;
    const Bits with_sign = as<Bits>(rounded) | (bits & 0x80000000u);
    const Part value = as<Part>(number == number ? with_sign : splat(kNan));
    return kScaled ? value * Isa::template splat<float>(1.0f / 256) : value;
  }

  static Bits splat(uint32_t value) { return Isa::template splat<uint32_t>(value); }
};

}  // namespace
}  // namespace horing
