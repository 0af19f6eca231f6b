#include "perf/data_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "perf/element.h"

namespace horing::perf {

namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A number below `bound` from 32 random bits.
uint64_t below(uint64_t random, uint64_t bound) {
  return ((random & 0xffffffffu) * bound) >> 32;
}

// The roles in one element: one rank carries the target, the others form pairs.
struct Roles {
  uint64_t random;
  bool carrier;
  bool paired;
  bool first_of_pair;
  uint64_t pair_random;
};

class RoleMaker {
 public:
  RoleMaker(const CheckedOperation& operation, int max_pairs)
      : seed_(mix(operation.seed + 0x9e3779b97f4a7c15u)),
        ranks_(static_cast<uint64_t>(operation.ranks)),
        pairs_(std::min<uint64_t>(static_cast<uint64_t>(max_pairs), ranks_ / 2)) {}

  uint64_t random(uint64_t element) const { return mix(seed_ + element); }
  uint64_t carrier(uint64_t random) const { return below(random >> 32, ranks_); }
  uint64_t pairs() const { return pairs_; }
  Roles roles(uint64_t element, int rank) const {
    Roles r{};
    r.random = random(element);
    r.carrier = carrier(r.random) == static_cast<uint64_t>(rank);
    uint64_t place = static_cast<uint64_t>(rank) + below(r.random, ranks_);
    if (place >= ranks_) place -= ranks_;
    r.paired = place / 2 < pairs_;  // the odd rank out is never among the first pairs
    r.first_of_pair = place % 2 == 0;
    r.pair_random = mix(r.random + place / 2 + 1);
    return r;
  }

 private:
  uint64_t seed_;
  uint64_t ranks_;
  uint64_t pairs_;
};

// ---- Integers: T is the unsigned type of the same width; everything wraps around. ----

template <typename T>
constexpr T inverseOfThree() {
  T inverse = 3;  // each step doubles the number of right bits: 3 * 3 = 1 modulo 8
  for (int i = 0; i < 5; ++i)
    inverse = static_cast<T>(inverse * static_cast<T>(2 - static_cast<T>(3 * inverse)));
  return inverse;
}

template <typename T>
class IntegerPattern {
 public:
  explicit IntegerPattern(const CheckedOperation& operation)
      : operation_(operation), maker_(operation, 1 << 20), is_signed_(isSigned(operation.type)) {}

  T input(uint64_t element, int rank) const {
    const Roles r = maker_.roles(element, rank);
    const T target = targetOf(r.random);
    switch (*operation_.op) {
      case RedOp::kProd: {
        const T other = !r.paired ? T{1} : r.first_of_pair ? T{3} : inverseOfThree<T>();
        return static_cast<T>(r.carrier ? target * other : other);
      }
      case RedOp::kMax:
        return static_cast<T>(target - losingBy(r));
      case RedOp::kMin:
        return static_cast<T>(target + losingBy(r));
      case RedOp::kBitAnd:
        return static_cast<T>(r.carrier ? target : target | static_cast<T>(r.pair_random));
      case RedOp::kBitOr:
        return static_cast<T>(r.carrier ? target : target & static_cast<T>(r.pair_random));
      case RedOp::kBitXor: {
        const T other = r.paired ? static_cast<T>(r.pair_random) : T{0};
        return static_cast<T>(r.carrier ? target ^ other : other);
      }
      default: {
        const T d = static_cast<T>(r.pair_random);
        const T other = !r.paired ? T{0} : r.first_of_pair ? d : static_cast<T>(T{0} - d);
        return static_cast<T>(r.carrier ? target + other : other);
      }
    }
  }

  T expected(uint64_t element) const {
    const T target = targetOf(maker_.random(element));
    if (operation_.op != RedOp::kAvg) return target;
    if (!is_signed_) return static_cast<T>(target / static_cast<uint64_t>(operation_.ranks));
    return static_cast<T>(static_cast<std::make_signed_t<T>>(target) /
                          static_cast<int64_t>(operation_.ranks));
  }

 private:
  static bool isSigned(DataType type) {
    return type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
  }
  static constexpr int kTopShift = static_cast<int>(sizeof(T)) * 8 - 8;

  // min and max leave a quarter of the range free on each side, so that the losers do not wrap around.
  T targetOf(uint64_t random) const {
    const auto target = static_cast<T>(mix(random));
    if (operation_.op != RedOp::kMax && operation_.op != RedOp::kMin) return target;
    const uint64_t top = 64 + ((random >> 8) & 127);  // 64 .. 190 of 256
    return static_cast<T>(static_cast<T>((is_signed_ ? top - 128 : top) << kTopShift));
  }
  T losingBy(const Roles& r) const {
    return r.carrier ? T{0} : static_cast<T>((r.pair_random & 63) << kTopShift);
  }

  CheckedOperation operation_;
  RoleMaker maker_;
  bool is_signed_;
};

// ---- Floating point: values are integer * 2^-halvings. ----

struct Value {
  int64_t integer;
  int halvings;
};

constexpr int kProductPairs = 4;  // 2^4 times a target, or a part of it, is in the range of every type

class FloatPattern {
 public:
  explicit FloatPattern(const CheckedOperation& operation)
      : operation_(operation),
        budget_(int64_t{1} << precisionBits(operation.type)),
        maker_(operation, operation.op == RedOp::kProd
                              ? kProductPairs
                              : static_cast<int>(std::min<int64_t>(budget_ / 4, 1 << 20))) {
    const auto pairs = static_cast<int64_t>(std::max<uint64_t>(maker_.pairs(), 1));
    pair_limit_ = static_cast<uint64_t>(std::min<int64_t>(budget_ / 4 / pairs, int64_t{1} << 31));
  }

  Value input(uint64_t element, int rank) const {
    const Roles r = maker_.roles(element, rank);
    switch (*operation_.op) {
      case RedOp::kProd:
        return product(r);
      case RedOp::kMax:
        return {target(r.random) - losingBy(r), halvings(r.random)};
      case RedOp::kMin:
        return {target(r.random) + losingBy(r), halvings(r.random)};
      case RedOp::kAvg:
        return {averaged(r.random, rank), 0};
      default:  // a sum: bits are of integers only
        break;
    }
    int64_t integer = r.carrier ? target(r.random) : 0;
    if (r.paired) {
      const auto d = static_cast<int64_t>(1 + below(r.pair_random, pair_limit_));
      integer += r.first_of_pair ? d : -d;
    }
    return {integer, halvings(r.random)};
  }

  Value expected(uint64_t element) const {
    const uint64_t random = maker_.random(element);
    if (operation_.op == RedOp::kProd) return {factor(random), 0};
    return {target(random), halvings(random)};
  }

  double expectedAverage(uint64_t element) const {
    const uint64_t random = maker_.random(element);
    const auto first = static_cast<int>(maker_.carrier(random));
    const int second = secondOf(first);
    double a = static_cast<double>(averaged(random, first));
    double b = first == second ? 0 : static_cast<double>(averaged(random, second));
    if (operation_.type == DataType::kFloat64)
      return a * (1.0 / operation_.ranks) + b * (1.0 / operation_.ranks);
    const float share = 1.0f / static_cast<float>(operation_.ranks);
    return static_cast<float>(a) * share + static_cast<float>(b) * share;
  }

  int64_t budget() const { return budget_; }

 private:
  static int halvings(uint64_t random) { return static_cast<int>((random >> 16) % ElementTable::kHalvings); }
  // Between minus and plus half the budget.
  int64_t target(uint64_t random) const {
    const auto span = static_cast<uint64_t>(std::min<int64_t>(budget_, int64_t{1} << 31));
    return static_cast<int64_t>(below(mix(random), span + 1)) - static_cast<int64_t>(span / 2);
  }
  int64_t losingBy(const Roles& r) const {
    if (r.carrier) return 0;
    return static_cast<int64_t>(
        below(r.pair_random, static_cast<uint64_t>(std::min<int64_t>(budget_ / 2, int64_t{1} << 31))));
  }
  int64_t factor(uint64_t random) const {
    const int64_t t = target(random);
    return t == 0 ? 1 : t;
  }
  Value product(const Roles& r) const {
    const Value base = {r.carrier ? factor(r.random) : 1, 0};
    if (!r.paired) return base;
    return r.first_of_pair ? Value{base.integer * 2, 0} : Value{base.integer, 1};
  }
  int secondOf(int first) const { return first + 1 == operation_.ranks ? 0 : first + 1; }
  // Positive on two ranks, so that nothing cancels.
  int64_t averaged(uint64_t random, int rank) const {
    const auto first = static_cast<int>(maker_.carrier(random));
    if (rank != first && rank != secondOf(first)) return 0;
    const auto half = static_cast<uint64_t>(std::min<int64_t>(budget_ / 2, int64_t{1} << 31));
    return static_cast<int64_t>(1 + below(mix(random + static_cast<uint64_t>(rank == first)), half));
  }

  CheckedOperation operation_;
  int64_t budget_;
  RoleMaker maker_;
  uint64_t pair_limit_ = 1;
};

template <typename T>
T native(const Value& value) {
  constexpr T kScale[ElementTable::kHalvings] = {T(1), T(0.5), T(0.25)};
  return static_cast<T>(value.integer) * kScale[value.halvings];
}

// out[i] = make(i); memcpy because a buffer may be aligned to nothing more than its element.
template <typename T, typename Make>
void fill(std::byte* out, size_t elements, Make&& make) {
  for (size_t i = 0; i < elements; ++i) {
    const T element = make(i);
    std::memcpy(out + i * sizeof(T), &element, sizeof(T));
  }
}

enum class Side { kInput, kExpected };

struct Request {
  Side side;
  int rank;
  uint64_t first;  // number of the buffer's first element in the whole operation
};

template <typename T>
void fillInteger(const CheckedOperation& operation, const Request& request, std::byte* out, size_t elements) {
  const IntegerPattern<T> pattern(operation);
  if (request.side == Side::kInput)
    fill<T>(out, elements, [&](size_t i) { return pattern.input(request.first + i, request.rank); });
  else
    fill<T>(out, elements, [&](size_t i) { return pattern.expected(request.first + i); });
}

template <typename T>
void fillNative(const CheckedOperation& operation, const Request& request, std::byte* out, size_t elements) {
  const FloatPattern pattern(operation);
  if (request.side == Side::kInput)
    fill<T>(out, elements,
            [&](size_t i) { return native<T>(pattern.input(request.first + i, request.rank)); });
  else if (operation.op == RedOp::kAvg)
    fill<T>(out, elements,
            [&](size_t i) { return static_cast<T>(pattern.expectedAverage(request.first + i)); });
  else
    fill<T>(out, elements, [&](size_t i) { return native<T>(pattern.expected(request.first + i)); });
}

template <typename T>
void fillSmall(const CheckedOperation& operation, const Request& request, std::byte* out, size_t elements) {
  const FloatPattern pattern(operation);
  const ElementTable table(operation.type, pattern.budget() * 2);
  const auto look = [&table](const Value& v) { return static_cast<T>(table.at(v.integer, v.halvings)); };
  if (request.side == Side::kInput)
    fill<T>(out, elements, [&](size_t i) { return look(pattern.input(request.first + i, request.rank)); });
  else if (operation.op == RedOp::kAvg)
    fill<T>(out, elements, [&](size_t i) {
      return static_cast<T>(encodeElement(operation.type, pattern.expectedAverage(request.first + i)));
    });
  else
    fill<T>(out, elements, [&](size_t i) { return look(pattern.expected(request.first + i)); });
}

void fillRandomBytes(const CheckedOperation& operation, uint64_t first_byte, std::byte* out, size_t bytes) {
  // Element by element would tie the bits to the type; bytes do not care.
  for (size_t i = 0; i < bytes; ++i) {
    const uint64_t at = first_byte + i;
    out[i] = static_cast<std::byte>(mix(operation.seed + at / 8) >> (at % 8 * 8));
  }
}

void fillReduced(const CheckedOperation& operation, const Request& request, std::byte* out, size_t elements) {
  switch (operation.type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return fillInteger<uint8_t>(operation, request, out, elements);
    case DataType::kInt32:
    case DataType::kUint32:
      return fillInteger<uint32_t>(operation, request, out, elements);
    case DataType::kInt64:
    case DataType::kUint64:
      return fillInteger<uint64_t>(operation, request, out, elements);
    case DataType::kFloat32:
      return fillNative<float>(operation, request, out, elements);
    case DataType::kFloat64:
      return fillNative<double>(operation, request, out, elements);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return fillSmall<uint16_t>(operation, request, out, elements);
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return fillSmall<uint8_t>(operation, request, out, elements);
  }
}

template <typename T>
uint64_t countFar(const CheckedOperation& operation, const std::byte* actual, const std::byte* expected,
                  size_t elements) {
  const bool inexact = operation.op == RedOp::kAvg && isFloatingPoint(operation.type);
  const uint64_t allowed = inexact ? 2 : 0;
  uint64_t wrong = 0;
  for (size_t i = 0; i < elements; ++i) {
    T a;
    T b;
    std::memcpy(&a, actual + i * sizeof(T), sizeof(T));
    std::memcpy(&b, expected + i * sizeof(T), sizeof(T));
    if (a == b) continue;
    // Moved data must be the same bits: +0 is not -0 then.
    if (!operation.op || elementDistance(operation.type, a, b) > allowed) ++wrong;
  }
  return wrong;
}

}  // namespace

void fillInput(const CheckedOperation& operation, int rank, uint64_t first, std::byte* out, size_t elements) {
  if (!operation.op) return fillExpected(operation, first, out, elements);
  fillReduced(operation, {Side::kInput, rank, first}, out, elements);
}

void fillExpected(const CheckedOperation& operation, uint64_t first, std::byte* out, size_t elements) {
  const size_t width = dataTypeBytes(operation.type);
  if (!operation.op) return fillRandomBytes(operation, first * width, out, elements * width);
  fillReduced(operation, {Side::kExpected, 0, first}, out, elements);
}

uint64_t countWrong(const CheckedOperation& operation, const std::byte* actual, const std::byte* expected,
                    size_t elements) {
  switch (dataTypeBytes(operation.type)) {
    case 1:
      return countFar<uint8_t>(operation, actual, expected, elements);
    case 2:
      return countFar<uint16_t>(operation, actual, expected, elements);
    case 4:
      return countFar<uint32_t>(operation, actual, expected, elements);
    default:
      return countFar<uint64_t>(operation, actual, expected, elements);
  }
}

}  // namespace horing::perf
