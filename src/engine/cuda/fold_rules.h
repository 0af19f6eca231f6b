#pragma once
// What a reduction does to the elements of a step: a codec, an operation and, for averages and premulsum, a scale. And which
// rule a type and an operation mean, stated once for the kernels and their tests.
#include <array>
#include <type_traits>

#include "base/types.h"
#include "engine/cuda/fold_codecs.h"
#include "engine/host/fold.h"

namespace horing::cuda {

// Of one step, as FoldArguments has them.
struct FoldScale {
  Factor factor;
  int32_t ranks = 1;
  bool is_final = false;
  // If not null, one element in memory of the GPU, at any alignment, that is read instead of `factor`.
  const void* factor_at = nullptr;
};

struct Add {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Multiply {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return static_cast<V>(a * b);
  }
};
struct Smaller {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return a < b ? a : b;
  }
};
struct Larger {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return a > b ? a : b;
  }
};
struct And {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Or {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};
// Of float32 and float64: a NaN wins, and -0 is below +0. M: the integer of the same size.
template <class M, bool kLarger>
struct PickFloat {
  template <class V>
  HORING_DEVICE static V apply(V a, V b) {
    if (a != a || b != b) return a != a ? a : b;
    if (a != b) return (a < b) != kLarger ? a : b;
    return bitsAs<V>(kLarger ? bitsAs<M>(a) & bitsAs<M>(b) : bitsAs<M>(a) | bitsAs<M>(b));
  }
};

template <class Codec, class Op>
struct Rule : Codec {
  using typename Codec::Stored;
  using typename Codec::Value;
  HORING_DEVICE explicit Rule(const FoldScale&) {}
  // Whether the result of a single source is that source, bit by bit.
  HORING_DEVICE bool keepsSingle(bool) const { return true; }
  HORING_DEVICE Value readSource(Stored stored, bool) const { return Codec::read(stored); }
  HORING_DEVICE static Value apply(Value a, Value b) { return Op::apply(a, b); }
};

// Scales the inputs when they are read.
template <class Codec>
struct ScaledRule : Rule<Codec, Add> {
  using typename Codec::Stored;
  using typename Codec::Value;
  HORING_DEVICE explicit ScaledRule(const FoldScale& scale) : Rule<Codec, Add>(scale) {
    if (scale.factor_at) {
      Stored stored;
      __builtin_memcpy(&stored, scale.factor_at, sizeof stored);
      factor = Codec::read(stored);
    } else if constexpr (std::is_floating_point_v<Value>) {
      factor = static_cast<Value>(scale.factor.number);
    } else {
      factor = static_cast<Value>(scale.factor.integer);
    }
  }
  HORING_DEVICE bool keepsSingle(bool is_input) const { return factor == Value{1} || !is_input; }
  HORING_DEVICE Value readSource(Stored stored, bool is_input) const {
    const Value value = Codec::read(stored);
    return is_input ? static_cast<Value>(value * factor) : value;
  }
  Value factor;
};

// Divides the folded sum, towards zero. E: the element's type; sums wrap around in its unsigned twin.
template <class E>
struct AverageIntegerRule : Rule<IntegerCodec<std::make_unsigned_t<E>>, Add> {
  using Unsigned = std::make_unsigned_t<E>;
  using Narrow = std::conditional_t<std::is_signed_v<E>, int32_t, uint32_t>;
  using Divided = std::conditional_t<sizeof(E) == 8, E, Narrow>;
  HORING_DEVICE explicit AverageIntegerRule(const FoldScale& scale)
      : Rule<IntegerCodec<Unsigned>, Add>(scale), divisor(scale.is_final ? scale.ranks : 1) {}
  HORING_DEVICE bool keepsSingle(bool) const { return divisor == 1; }
  HORING_DEVICE Unsigned write(Unsigned sum) const {
    return static_cast<Unsigned>(static_cast<Divided>(static_cast<E>(sum)) / static_cast<Divided>(divisor));
  }
  int32_t divisor;
};

// The rules of one type by operation, in the order of RedOp: For<Rule>::value, a pointer, is what the caller wants for each;
// null where the type has no such operation.
template <template <class> class For>
using RuleRow = std::array<std::remove_cv_t<decltype(For<Rule<IntegerCodec<uint8_t>, Add>>::value)>, kRedOps>;

template <template <class> class For, class E>
constexpr RuleRow<For> integerRow() {
  using Codec = IntegerCodec<E>;
  using Wrapping = IntegerCodec<std::make_unsigned_t<E>>;
  return {For<Rule<Wrapping, Add>>::value,   For<Rule<Wrapping, Multiply>>::value,
          For<Rule<Codec, Larger>>::value,   For<Rule<Codec, Smaller>>::value,
          For<AverageIntegerRule<E>>::value, For<Rule<Wrapping, And>>::value,
          For<Rule<Wrapping, Or>>::value,    For<Rule<Wrapping, Xor>>::value,
          For<ScaledRule<Wrapping>>::value};
}

template <template <class> class For, class Codec, class Max, class Min>
constexpr RuleRow<For> floatRow() {
  return {For<Rule<Codec, Add>>::value,
          For<Rule<Codec, Multiply>>::value,
          For<Max>::value,
          For<Min>::value,
          For<ScaledRule<Codec>>::value,
          nullptr,
          nullptr,
          nullptr,
          For<ScaledRule<Codec>>::value};
}

template <template <class> class For, class E, class M>
constexpr RuleRow<For> wideFloatRow() {
  using Codec = FloatCodec<E, M>;
  return floatRow<For, Codec, Rule<Codec, PickFloat<M, true>>, Rule<Codec, PickFloat<M, false>>>();
}

template <template <class> class For, class Codec, FloatFormat kFormat>
constexpr RuleRow<For> smallFloatRow() {
  using Stored = typename Codec::Stored;
  return floatRow<For, Codec, Rule<OrderCodec<kFormat, Stored, true>, Larger>,
                  Rule<OrderCodec<kFormat, Stored, false>, Smaller>>();
}

template <template <class> class For, DataType kType>
constexpr RuleRow<For> ruleRow() {
  if constexpr (kType == DataType::kInt8) return integerRow<For, int8_t>();
  if constexpr (kType == DataType::kUint8) return integerRow<For, uint8_t>();
  if constexpr (kType == DataType::kInt32) return integerRow<For, int32_t>();
  if constexpr (kType == DataType::kUint32) return integerRow<For, uint32_t>();
  if constexpr (kType == DataType::kInt64) return integerRow<For, int64_t>();
  if constexpr (kType == DataType::kUint64) return integerRow<For, uint64_t>();
  if constexpr (kType == DataType::kFloat32) return wideFloatRow<For, float, uint32_t>();
  if constexpr (kType == DataType::kFloat64) return wideFloatRow<For, double, uint64_t>();
  if constexpr (kType == DataType::kBfloat16) return smallFloatRow<For, Bfloat16Codec, kBfloat16Format>();
  if constexpr (kType == DataType::kFloat16)
    return smallFloatRow<For, SmallFloatCodec<kFloat16Format, uint16_t>, kFloat16Format>();
  if constexpr (kType == DataType::kFloat8e4m3)
    return smallFloatRow<For, SmallFloatCodec<kFloat8e4m3Format, uint8_t>, kFloat8e4m3Format>();
  if constexpr (kType == DataType::kFloat8e5m2)
    return smallFloatRow<For, SmallFloatCodec<kFloat8e5m2Format, uint8_t>, kFloat8e5m2Format>();
}

}  // namespace horing::cuda
