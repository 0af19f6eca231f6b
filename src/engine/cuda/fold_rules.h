#pragma once
// The rule of a reduction: a codec, an operation and, for averages and premulsum, a scale; and the table from type and operation to rule,
// for the kernels and their tests.
#include <array>
#include <type_traits>

#include "base/types.h"
#include "engine/cuda/fold_codecs.h"
#include "engine/host/fold.h"

namespace horing::cuda {

// The scale of one step, as in FoldArguments.
struct FoldScale {
  Factor factor;
  int32_t ranks = 1;
  bool is_final = false;
  // If not null, one element in memory that the GPU can access, at any alignment, which is read instead of `factor`.
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
// For float32 and float64: a NaN wins, and -0 is below +0. M: the integer of the same size.
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
  static constexpr bool kIsScaled = false;
  HORING_DEVICE explicit Rule(const FoldScale&) {}
  // Whether the result of a single source equals the source, bit by bit.
  HORING_DEVICE bool keepsSingle(bool) const { return true; }
  HORING_DEVICE Value readSource(Stored stored, bool) const { return Codec::read(stored); }
  HORING_DEVICE static Value apply(Value a, Value b) { return Op::apply(a, b); }
};

// Scales the inputs when they are read.
template <class Codec>
struct ScaledRule : Rule<Codec, Add> {
  using typename Codec::Stored;
  using typename Codec::Value;
  static constexpr bool kIsScaled = true;
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

// The rules of one type by operation, in the order of RedOp; NoRule if the type lacks the operation.
template <class... R>
struct RuleList {};
struct NoRule {};

template <class E, class Codec = IntegerCodec<E>, class Wrapping = IntegerCodec<std::make_unsigned_t<E>>>
using IntegerRules = RuleList<Rule<Wrapping, Add>, Rule<Wrapping, Multiply>, Rule<Codec, Larger>,
                              Rule<Codec, Smaller>, AverageIntegerRule<E>, Rule<Wrapping, And>,
                              Rule<Wrapping, Or>, Rule<Wrapping, Xor>, ScaledRule<Wrapping>>;
template <class Codec, class Max, class Min>
using FloatRules = RuleList<Rule<Codec, Add>, Rule<Codec, Multiply>, Max, Min, ScaledRule<Codec>, NoRule,
                            NoRule, NoRule, ScaledRule<Codec>>;
template <class E, class M, class Codec = FloatCodec<E, M>>
using WideFloatRules = FloatRules<Codec, Rule<Codec, PickFloat<M, true>>, Rule<Codec, PickFloat<M, false>>>;
template <class Codec, FloatFormat kFormat, class Stored = typename Codec::Stored>
using SmallFloatRules = FloatRules<Codec, Rule<OrderCodec<kFormat, Stored, true>, Larger>,
                                   Rule<OrderCodec<kFormat, Stored, false>, Smaller>>;

template <DataType kType>
constexpr auto rulesOf() {
  if constexpr (kType == DataType::kInt8) return IntegerRules<int8_t>();
  if constexpr (kType == DataType::kUint8) return IntegerRules<uint8_t>();
  if constexpr (kType == DataType::kInt32) return IntegerRules<int32_t>();
  if constexpr (kType == DataType::kUint32) return IntegerRules<uint32_t>();
  if constexpr (kType == DataType::kInt64) return IntegerRules<int64_t>();
  if constexpr (kType == DataType::kUint64) return IntegerRules<uint64_t>();
  if constexpr (kType == DataType::kFloat32) return WideFloatRules<float, uint32_t>();
  if constexpr (kType == DataType::kFloat64) return WideFloatRules<double, uint64_t>();
  if constexpr (kType == DataType::kBfloat16) return SmallFloatRules<Bfloat16Codec, kBfloat16Format>();
  if constexpr (kType == DataType::kFloat16)
    return SmallFloatRules<SmallFloatCodec<kFloat16Format, uint16_t>, kFloat16Format>();
  if constexpr (kType == DataType::kFloat8e4m3)
    return SmallFloatRules<SmallFloatCodec<kFloat8e4m3Format, uint8_t>, kFloat8e4m3Format>();
  if constexpr (kType == DataType::kFloat8e5m2)
    return SmallFloatRules<SmallFloatCodec<kFloat8e5m2Format, uint8_t>, kFloat8e5m2Format>();
}

template <size_t kNumber, class List>
struct RuleAt;
template <size_t kNumber, class First, class... Rest>
struct RuleAt<kNumber, RuleList<First, Rest...>> : RuleAt<kNumber - 1, RuleList<Rest...>> {};
template <class First, class... Rest>
struct RuleAt<0, RuleList<First, Rest...>> {
  using Type = First;
};
template <DataType kType, RedOp kOp>
using RuleOf = typename RuleAt<static_cast<size_t>(kOp), decltype(rulesOf<kType>())>::Type;

// For<Rule>::value, a pointer, for each rule of a type; null where there is none.
template <template <class> class For>
using RuleValue = std::remove_cv_t<decltype(For<Rule<IntegerCodec<uint8_t>, Add>>::value)>;
template <template <class> class For>
using RuleRow = std::array<RuleValue<For>, kRedOps>;

template <template <class> class For, class R>
constexpr RuleValue<For> ruleValue() {
  if constexpr (std::is_same_v<R, NoRule>) {
    return nullptr;
  } else {
    return For<R>::value;
  }
}
template <template <class> class For, class... R>
constexpr RuleRow<For> ruleRow(RuleList<R...>) {
  return {ruleValue<For, R>()...};
}
template <template <class> class For, DataType kType>
constexpr RuleRow<For> ruleRow() {
  return ruleRow<For>(rulesOf<kType>());
}

}  // namespace horing::cuda
