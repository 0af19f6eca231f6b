#pragma once
// The loop that folds, and the table of its instances. Private to the fold_*.cpp files; see fold_vectors.h.
//
// A *tile* is a few registers of consecutive elements. The loop takes tile after tile; in each it goes through the sources in
// order, keeps the running values in registers and stores them once, to one or two destinations. All sources of a tile are read
// before its destination is written, so a destination may be a source. The last, incomplete register goes through the same
// arithmetic, padded with zeros: a value does not depend on its place in the block.
#include <type_traits>

#include "engine/host/fold.h"
#include "engine/host/fold_codecs.h"

namespace horing {
namespace {

struct Add {
  template <class V>
  static V apply(V a, V b) {
    return a + b;
  }
};

struct Multiply {
  template <class V>
  static V apply(V a, V b) {
    return a * b;
  }
};

struct Smaller {
  template <class V>
  static V apply(V a, V b) {
    return a < b ? a : b;
  }
};

struct Larger {
  template <class V>
  static V apply(V a, V b) {
    return a > b ? a : b;
  }
};

struct And {
  template <class V>
  static V apply(V a, V b) {
    return a & b;
  }
};

struct Or {
  template <class V>
  static V apply(V a, V b) {
    return a | b;
  }
};

struct Xor {
  template <class V>
  static V apply(V a, V b) {
    return a ^ b;
  }
};

// The smaller number; -0 is below +0, and a NaN wins. The hardware's minimum returns its second operand when
// the two are equal or unordered, so the two orders agree except there, where the union of their bits is
// right: a zero with a sign, or a NaN (all exponent bits, and a mantissa that is not zero).
template <class Isa>
struct SmallerFloat {
  template <class V>
  static V apply(V a, V b) {
    using Bits = typename Isa::Bits;
    return as<V>(as<Bits>(Isa::less(a, b)) | as<Bits>(Isa::less(b, a)));
  }
};

// A rule: codec, operation and the extra work of avg and premulsum, bound to the arguments of one call.
template <class Codec, class Op>
struct Rule : Codec {
  explicit Rule(const FoldArguments&) {}
  // Whether the result of a single source is that source.
  static bool keepsSingle(const FoldArguments&) { return true; }
  static void readSource(typename Codec::Isa::Bits bits, int, typename Codec::Part* part) {
    Codec::read(bits, part);
  }
  static typename Codec::Part apply(typename Codec::Part a, typename Codec::Part b) {
    return Op::apply(a, b);
  }
};

// Scales the inputs as they are read. E: the type to compute with.
template <class Codec, class E>
struct ScaledRule : Rule<Codec, Add> {
  using Part = typename Codec::Part;
  explicit ScaledRule(const FoldArguments& arguments)
      : Rule<Codec, Add>(arguments), is_input(arguments.is_input), factor(factorOf(arguments)) {}
  static E factorOf(const FoldArguments& arguments) {
    if constexpr (std::is_floating_point_v<E>) return static_cast<E>(arguments.factor.number);
    return static_cast<E>(arguments.factor.integer);
  }
  static bool keepsSingle(const FoldArguments& arguments) {
    return factorOf(arguments) == E{1} || arguments.is_input == nullptr || !arguments.is_input[0];
  }
  void readSource(typename Codec::Isa::Bits bits, int source, Part* part) const {
    Codec::read(bits, part);
    const E scale = is_input != nullptr && is_input[source] ? factor : E{1};
    const Part scales = Codec::Isa::template splat<E>(scale);
    unrolled<Codec::kParts>([&](auto j) { part[j.value] *= scales; });
  }
  const bool* is_input;
  E factor;
};

// Divides the folded sum. E is the element's type; sums wrap around in its unsigned counterpart.
template <class I, class E>
struct AverageIntegerRule : Rule<IntegerCodec<I, std::make_unsigned_t<E>>, Add> {
  using Codec = IntegerCodec<I, std::make_unsigned_t<E>>;
  using Part = typename Codec::Part;
  // A floating point quotient of integers that it holds exactly never rounds up to the next integer, and
  // vectorises.
  using Exact = std::conditional_t<sizeof(E) == 1, float, std::conditional_t<sizeof(E) == 4, double, E>>;
  explicit AverageIntegerRule(const FoldArguments& arguments)
      : Rule<Codec, Add>(arguments), divisor(static_cast<Exact>(arguments.is_final ? arguments.ranks : 1)) {}
  static bool keepsSingle(const FoldArguments& arguments) {
    return arguments.ranks == 1 || !arguments.is_final;
  }
  typename I::Bits write(const Part* part) const {
    if (divisor == Exact{1}) return Codec::write(part);
    constexpr int kLanes = I::kBytes / sizeof(E);
    E lanes[kLanes];
    __builtin_memcpy(lanes, part, sizeof lanes);
    for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<E>(static_cast<Exact>(lanes[i]) / divisor);
    return I::load(reinterpret_cast<const std::byte*>(lanes));
  }
  Exact divisor;
};

// The registers from byte `at` on, complete or (kPacks == 1) only `bytes` of the one.
template <class Isa, bool kComplete>
struct Access {
  static typename Isa::Bits load(const std::byte* from, size_t bytes) {
    if constexpr (kComplete) return Isa::load(from);
    return Isa::loadSome(from, bytes);
  }
  static void store(std::byte* to, typename Isa::Bits bits, size_t bytes) {
    if constexpr (kComplete) return Isa::store(to, bits);
    Isa::storeSome(to, bits, bytes);
  }
  static void stream(std::byte* to, typename Isa::Bits bits, size_t bytes) {
    if constexpr (kComplete) return Isa::stream(to, bits);
    Isa::storeSome(to, bits, bytes);
  }
};

template <class R, int kPacks, class Memory>
void foldTile(const R& rule, const FoldArguments& arguments, int streams_from, size_t at, size_t bytes) {
  using Part = typename R::Part;
  constexpr int kParts = R::kParts;
  constexpr int kBytes = R::Isa::kBytes;
  Part value[kPacks][kParts];
  const std::byte* first = arguments.sources[0] + at;
  unrolled<kPacks>(
      [&](auto p) { rule.readSource(Memory::load(first + p.value * kBytes, bytes), 0, value[p.value]); });
  for (int s = 1; s < arguments.source_count; ++s) {
    const std::byte* source = arguments.sources[s] + at;
    unrolled<kPacks>([&](auto p) {
      Part operand[kParts];
      rule.readSource(Memory::load(source + p.value * kBytes, bytes), s, operand);
      unrolled<kParts>(
          [&](auto j) { value[p.value][j.value] = R::apply(value[p.value][j.value], operand[j.value]); });
    });
  }
  typename R::Isa::Bits results[kPacks];
  unrolled<kPacks>([&](auto p) { results[p.value] = rule.write(value[p.value]); });
  // One destination after the other, so that streaming stores fill whole lines.
  for (int d = 0; d < arguments.destination_count; ++d) {
    std::byte* const to = arguments.destinations[d] + at;
    if (d >= streams_from) {
      unrolled<kPacks>([&](auto p) { Memory::stream(to + p.value * kBytes, results[p.value], bytes); });
    } else {
      unrolled<kPacks>([&](auto p) { Memory::store(to + p.value * kBytes, results[p.value], bytes); });
    }
  }
}

constexpr size_t kLineBytes = 64;
// Measured with fold_bench, two and four sources: 512 to 2048 are equal, 256 and 4096 gain less.
constexpr size_t kAheadBytes = 1024;
constexpr int kToRead = 0;  // arguments of __builtin_prefetch
constexpr int kIntoSecondLevel = 2;

inline size_t placeInLine(const std::byte* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kLineBytes;
}

// The destinations that are really stored past the caches: whole lines only, so the last ones of the allowed that have the same
// alignment.
struct Streamed {
  int from = 0;
  size_t before_lines = 0;  // bytes
};

inline Streamed streamedOf(const FoldArguments& arguments, size_t element_bytes) {
  Streamed streamed{.from = arguments.destination_count};
  if (arguments.streams_from >= streamed.from) return streamed;
  const size_t place = placeInLine(arguments.destinations[streamed.from - 1]);
  if (place % element_bytes != 0) return streamed;
  streamed.before_lines = (kLineBytes - place) % kLineBytes;
  while (streamed.from > arguments.streams_from &&
         placeInLine(arguments.destinations[streamed.from - 1]) == place)
    --streamed.from;
  return streamed;
}

template <class R, int kElementBytes>
void fold(const FoldArguments& arguments) {
  const size_t bytes = arguments.count * kElementBytes;
  if (arguments.source_count == 1 && R::keepsSingle(arguments)) {
    for (int d = 0; d < arguments.destination_count; ++d)
      copyBytes(arguments.sources[0], arguments.destinations[d], nullptr, bytes);
    return;
  }
  using Isa = typename R::Isa;
  constexpr size_t kBytes = Isa::kBytes;
  constexpr int kPacks =
      R::kParts == 4 ? 2 : 4;  // measured: more run out of registers or of outstanding loads
  const R rule(arguments);
  const Streamed streamed = streamedOf(arguments, kElementBytes);
  const int streams_from = streamed.from;
  size_t at = 0;
  if (streams_from < arguments.destination_count) {
    const size_t lines = streamed.before_lines < bytes ? streamed.before_lines : bytes;
    while (at < lines) {
      const size_t piece = lines - at < kBytes ? lines - at : kBytes;
      foldTile<R, 1, Access<Isa, false>>(rule, arguments, streams_from, at, piece);
      at += piece;
    }
    // Outputs too large for the caches have inputs too large for them. Memory stalls are shorter if lines of all sources are
    // prefetched in turn and ahead of their use, which the hardware does only within a page. Past the end begins the next slice; if
    // there is none, the prefetch is harmless.
    for (; bytes - at >= kLineBytes; at += kLineBytes) {
      for (int s = 0; s < arguments.source_count; ++s)
        __builtin_prefetch(arguments.sources[s] + at + kAheadBytes, kToRead, kIntoSecondLevel);
      foldTile<R, kLineBytes / kBytes, Access<Isa, true>>(rule, arguments, streams_from, at, kBytes);
    }
  }
  for (; bytes - at >= kPacks * kBytes; at += kPacks * kBytes) {
    foldTile<R, kPacks, Access<Isa, true>>(rule, arguments, streams_from, at, kBytes);
  }
  for (; bytes - at >= kBytes; at += kBytes)
    foldTile<R, 1, Access<Isa, true>>(rule, arguments, streams_from, at, kBytes);
  if (at < bytes) foldTile<R, 1, Access<Isa, false>>(rule, arguments, streams_from, at, bytes - at);
}

struct FoldRow {
  FoldFunction by_op[kRedOps];  // in the order of RedOp; null: not for this type
};

template <class Isa, class E>
constexpr FoldRow integerRow() {
  using Wrapping = IntegerCodec<Isa, std::make_unsigned_t<E>>;
  using Codec = IntegerCodec<Isa, E>;
  using Pattern = IntegerCodec<Isa, uint32_t>;  // bit patterns, whatever the width
  constexpr int kBytes = sizeof(E);
  return {{fold<Rule<Wrapping, Add>, kBytes>, fold<Rule<Wrapping, Multiply>, kBytes>,
           fold<Rule<Codec, Larger>, kBytes>, fold<Rule<Codec, Smaller>, kBytes>,
           fold<AverageIntegerRule<Isa, E>, kBytes>, fold<Rule<Pattern, And>, kBytes>,
           fold<Rule<Pattern, Or>, kBytes>, fold<Rule<Pattern, Xor>, kBytes>,
           fold<ScaledRule<Wrapping, std::make_unsigned_t<E>>, kBytes>}};
}

template <class Isa, class E, class M>
constexpr FoldRow floatRow() {
  using Codec = FloatCodec<Isa, E, M>;
  using Negated = NegatedFloatCodec<Isa, E, M>;
  constexpr int kBytes = sizeof(E);
  return {{fold<Rule<Codec, Add>, kBytes>, fold<Rule<Codec, Multiply>, kBytes>,
           fold<Rule<Negated, SmallerFloat<Isa>>, kBytes>, fold<Rule<Codec, SmallerFloat<Isa>>, kBytes>,
           fold<ScaledRule<Codec, E>, kBytes>, nullptr, nullptr, nullptr,
           fold<ScaledRule<Codec, E>, kBytes>}};
}

// E: the signed integer of the format's size.
template <class Codec, const FloatFormat& kFormat, class E>
constexpr FoldRow smallFloatRow() {
  constexpr E kHighest = static_cast<E>((1 << (kFormat.bits - 1)) - 1);
  using Ascending = OrderCodec<typename Codec::Isa, kFormat, E, kHighest>;
  using Descending = OrderCodec<typename Codec::Isa, kFormat, E, static_cast<E>(-kHighest - 1)>;
  constexpr int kBytes = sizeof(E);
  return {{fold<Rule<Codec, Add>, kBytes>, fold<Rule<Codec, Multiply>, kBytes>,
           fold<Rule<Ascending, Larger>, kBytes>, fold<Rule<Descending, Smaller>, kBytes>,
           fold<ScaledRule<Codec, float>, kBytes>, nullptr, nullptr, nullptr,
           fold<ScaledRule<Codec, float>, kBytes>}};
}

// The codecs of the types that an instruction set may be able to convert.
template <class Isa, bool kConvertsHalf>
struct SmallFloatCodecs {
  using Half = SplitCodec<Isa, kFloat16Format>;
  using E4m3 = SplitCodec<Isa, kFloat8e4m3Format>;
  using E5m2 = SplitCodec<Isa, kFloat8e5m2Format>;
};
template <class Isa>
struct SmallFloatCodecs<Isa, true> {
  using Half = HalfCodec<Isa>;
  using E4m3 = Float8Codec<Isa, kFloat8e4m3Format>;
  using E5m2 = Float8Codec<Isa, kFloat8e5m2Format>;
};

template <class Isa>
FoldFunction foldFunctionOf(DataType type, RedOp op) {
  using Small = SmallFloatCodecs<Isa, Isa::kConvertsHalf>;
  static constexpr FoldRow kRows[kDataTypes] = {
      // in the order of DataType
      integerRow<Isa, int8_t>(),
      integerRow<Isa, uint8_t>(),
      integerRow<Isa, int32_t>(),
      integerRow<Isa, uint32_t>(),
      integerRow<Isa, int64_t>(),
      integerRow<Isa, uint64_t>(),
      smallFloatRow<typename Small::Half, kFloat16Format, int16_t>(),
      floatRow<Isa, float, uint32_t>(),
      floatRow<Isa, double, uint64_t>(),
      smallFloatRow<Bfloat16Codec<Isa>, kBfloat16Format, int16_t>(),
      smallFloatRow<typename Small::E4m3, kFloat8e4m3Format, int8_t>(),
      smallFloatRow<typename Small::E5m2, kFloat8e5m2Format, int8_t>(),
  };
  return kRows[static_cast<int>(type)].by_op[static_cast<int>(op)];
}

}  // namespace
}  // namespace horing
