// Every algorithm against a reference in closed form, to the bit, for every type, operation and size of a
// sweep.
//
// The reference knows no schedules. It is the statement of which rank's contribution is folded when, and
// where values are rounded: to the data type whenever one is sent or kept.
//   ring:     chunk c: ranks c+1, ..., c; rounded after each.
//   direct:   chunk c: ranks c+1, ..., c; the others' shares rounded on their way, folded in one pass,
//   rounded once. ho_ring:  chunk (d, j): groups d+1, ..., d, rounded after each; in each group the locals
//   j+1, ..., j, rounded after
//             each (ho_ring_direct: as in direct).
//   ho_direct: as ho_ring_direct inside the groups; over the groups in one pass, too.
//   ho_ordered: locals 0, 1, ... of each group, each share rounded, in one pass, rounded; so the groups 0, 1, ...
//   halving_doubling: a tree over the ranks, ho_halving: over the groups; each share in one pass, rounded when it is sent.
//   doubling: ranks in pairs, pairs in pairs, ..., lower first, rounded after each; ho_doubling: so the groups.
//   ho_leaders: locals 0, 1, ... of each group, all but the first rounded, in one pass, rounded; the groups as in doubling.
//             reduce-scatter: the groups as the tree of ho_halving, the locals of each and the share of distance d+1 so in one
//             pass, rounded, and then those of d+2, d+4, ..., rounded after each.
//   ho_leaders_split: so the locals of group d, and in the same pass those of d+1, ..., each group's rounded.
//   star: ranks 0, 1, ..., n-1, the centre; the others' shares rounded on their way, folded in one pass, rounded once.
//   peer_read, peer_write: as direct, but the others' shares as they are.
//   one_shot: ranks 0, 1, ...; each share rounded, folded in one pass, rounded once.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "../sanitizer.h"
#include "engine/host/float_formats.h"
#include "world.h"

namespace horing {
namespace {

// One element in the type in which it is accumulated.
struct Value {
  double f64 = 0;
  float f32 = 0;
  uint64_t integer = 0;  // two's complement, of the type's width
};

class Arithmetic {
 public:
  Arithmetic(DataType type, RedOp op, int ranks) : type_(type), op_(op), ranks_(ranks) {}

  // What a position's inputs are multiplied by in premulsum.
  static Factor factorAt(size_t position) {
    return {.number = 0.75 - 0.375 * static_cast<double>(position % 5), .integer = 2 * position + 3};
  }

  // An input, scaled for avg of floating point and for premulsum.
  Value load(const std::byte* at, size_t position) const {
    Value v = widen(at);
    if (op_ == RedOp::kPreMulSum) {
      const Factor factor = factorAt(position);
      v.f32 *= static_cast<float>(factor.number);
      v.f64 *= factor.number;
      v.integer = truncate(v.integer * factor.integer);
    }
    if (op_ == RedOp::kAvg && isFloatingPoint(type_)) {
      v.f32 *= 1.0f / static_cast<float>(ranks_);
      v.f64 *= 1.0 / ranks_;
    }
    return v;
  }

  Value fold(const Value& a, const Value& b) const {
    Value r;
    if (!isFloatingPoint(type_)) {
      r.integer = foldIntegers(a.integer, b.integer);
    } else {
      r.f32 = foldFloats(a.f32, b.f32);
      r.f64 = foldFloats(a.f64, b.f64);
    }
    return r;
  }

  // Through the data type and back.
  Value round(const Value& v) const {
    std::byte bytes[8];
    store(v, bytes);
    return widen(bytes);
  }

  void store(const Value& v, std::byte* at) const {
    const auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
    switch (type_) {
      case DataType::kFloat16:
        return put(floatToFloat16(v.f32));
      case DataType::kBfloat16:
        return put(floatToBfloat16(v.f32));
      case DataType::kFloat8e4m3:
        return put(floatToFloat8e4m3(v.f32));
      case DataType::kFloat8e5m2:
        return put(floatToFloat8e5m2(v.f32));
      case DataType::kFloat32:
        return put(v.f32);
      case DataType::kFloat64:
        return put(v.f64);
      default:
        std::memcpy(at, &v.integer, dataTypeBytes(type_));
    }
  }

  // The sum of integers becomes an average once, at the very end.
  Value finish(Value v) const {
    if (op_ != RedOp::kAvg || isFloatingPoint(type_)) return v;
    if (isSigned()) {
      v.integer = static_cast<uint64_t>(signExtend(v.integer) / ranks_);
    } else {
      v.integer = truncate(v.integer) / static_cast<uint64_t>(ranks_);
    }
    return v;
  }

 private:
  bool isSigned() const {
    return type_ == DataType::kInt8 || type_ == DataType::kInt32 || type_ == DataType::kInt64;
  }
  uint64_t truncate(uint64_t x) const {
    const size_t bits = 8 * dataTypeBytes(type_);
    return bits == 64 ? x : x & ((uint64_t{1} << bits) - 1);
  }
  int64_t signExtend(uint64_t x) const {
    const size_t unused = 64 - 8 * dataTypeBytes(type_);
    return static_cast<int64_t>(x << unused) >> unused;
  }
  bool less(uint64_t a, uint64_t b) const {
    return isSigned() ? signExtend(a) < signExtend(b) : truncate(a) < truncate(b);
  }

  uint64_t foldIntegers(uint64_t a, uint64_t b) const {
    switch (op_) {
      case RedOp::kProd:
        return truncate(a * b);
      case RedOp::kMax:
        return less(a, b) ? b : a;
      case RedOp::kMin:
        return less(b, a) ? b : a;
      case RedOp::kBitAnd:
        return a & b;
      case RedOp::kBitOr:
        return a | b;
      case RedOp::kBitXor:
        return a ^ b;
      default:
        return truncate(a + b);
    }
  }
  template <typename T>
  T foldFloats(T a, T b) const {
    switch (op_) {
      case RedOp::kProd:
        return a * b;
      case RedOp::kMax:
        return a < b ? b : a;
      case RedOp::kMin:
        return b < a ? b : a;
      default:
        return a + b;
    }
  }
  template <typename T>
  static T get(const std::byte* at) {
    T x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  Value widen(const std::byte* at) const {
    Value v;
    switch (type_) {
      case DataType::kFloat16:
        v.f32 = float16ToFloat(get<uint16_t>(at));
        break;
      case DataType::kBfloat16:
        v.f32 = bfloat16ToFloat(get<uint16_t>(at));
        break;
      case DataType::kFloat8e4m3:
        v.f32 = float8e4m3ToFloat(get<uint8_t>(at));
        break;
      case DataType::kFloat8e5m2:
        v.f32 = float8e5m2ToFloat(get<uint8_t>(at));
        break;
      case DataType::kFloat32:
        v.f32 = get<float>(at);
        break;
      case DataType::kFloat64:
        v.f64 = get<double>(at);
        break;
      default:
        std::memcpy(&v.integer, at, dataTypeBytes(type_));
    }
    return v;
  }

  DataType type_;
  RedOp op_;
  int ranks_;
};

struct Case {
  std::string algorithm;
  Collective collective;
  Shape shape;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  size_t count = 0;
};

// inputs[position] is the contribution of that position: `count` or n * count elements, as the collective requires.
class Reference {
 public:
  Reference(const Case& c, const std::vector<std::vector<std::byte>>& inputs)
      : case_(c),
        inputs_(inputs),
        arithmetic_(c.type, c.op, c.shape.ranks()),
        bytes_(dataTypeBytes(c.type)) {}

  // Element `element` of the whole vector, in the chunk `chunk`.
  void reduce(size_t element, int chunk, std::byte* at) const {
    const Arithmetic& a = arithmetic_;
    const int n = case_.shape.ranks(), m = case_.shape.members, groups = case_.shape.groups;
    const auto input = [&](int position) {
      const auto p = static_cast<size_t>(position);
      return a.load(inputs_[p].data() + element * bytes_, p);
    };
    const auto sent = [&](int position) { return a.round(input(position)); };
    const auto sentExcept = [&](int own) {
      return [&, own](int p) { return p == own ? input(p) : sent(p); };
    };
    if (case_.algorithm == "one_shot")
      return a.store(a.finish(n > 1 ? chain(0, n, sent, false) : input(0)), at);
    if (case_.algorithm == "star") return a.store(a.finish(chain(0, n, sentExcept(n - 1), false)), at);
    if (std::string_view(case_.algorithm).starts_with("peer_"))
      return a.store(a.finish(chain(chunk + 1, n, input, false)), at);
    if (case_.algorithm == "doubling") return a.store(a.finish(doubling(n, input, 0)), at);
    if (case_.algorithm == "direct")
      return a.store(a.finish(chain(chunk + 1, n, sentExcept(chunk), false)), at);
    if (case_.algorithm == "ho_ordered") {
      const auto group = [&](int g) {
        return a.round(chain(
            0, m, [&](int l) { return sent(g * m + l); }, false));
      };
      return a.store(a.finish(chain(0, groups, group, false)), at);
    }
    if (case_.algorithm == "halving_doubling") return a.store(a.finish(tree(n, chunk, input)), at);
    if (case_.algorithm == "ring" || case_.algorithm == "serial_ring")
      return a.store(a.finish(chain(chunk + 1, n, input, true)), at);
    const auto collected = [&](int g, int l) { return sentExcept(g * m)(g * m + l); };
    if (case_.algorithm == "ho_leaders_split") {
      const auto group = [&](int g) {
        return a.round(chain(
            0, m, [&](int l) { return collected(g, l); }, false));
      };
      const auto operand = [&](int k) {
        return k < m ? collected(chunk, k) : group((chunk + k - m + 1) % groups);
      };
      return a.store(a.finish(chain(0, m + groups - 1, operand, false)), at);
    }
    if (case_.algorithm == "ho_leaders") {
      const auto group = [&](int g) {
        const auto local = [&](int l) { return collected(g, l); };
        // As with rails: kept in between, but where a group is one rank or all are one group.
        return m > 1 && groups > 1 ? a.round(chain(0, m, local, false)) : chain(0, m, local, false);
      };
      if (case_.collective == Collective::kReduceScatter) {
        const std::function<Value(int)> sum = [&](int distance) {
          const int home = chunk / m;
          const int g = std::has_single_bit(unsigned(groups)) ? home ^ distance : (home + distance) % groups;
          const auto child = [&](int bit) { return a.round(sum(distance + bit)); };
          const auto has = [&](int bit) { return distance + bit < groups && !(distance & bit); };
          const auto first = [&](int k) { return k < m ? collected(g, k) : child(1); };
          Value folded = chain(0, m + has(1), first, false);
          for (int bit = 2; has(1) && has(bit); bit *= 2) folded = a.fold(a.round(folded), child(bit));
          return folded;
        };
        return a.store(a.finish(sum(0)), at);
      }
      return a.store(a.finish(doubling(groups, group, 0)), at);
    }
    const int d = chunk / m, j = chunk % m;  // ho_doubling has one row
    const auto group = [&](int g) {
      const auto direct = [&](int l) { return sentExcept(g * m + j)(g * m + l); };
      const auto ring = [&](int l) { return input(g * m + l); };
      const bool is_direct = case_.algorithm != "ho_ring";
      const Value share = is_direct ? chain(j + 1, m, direct, false) : chain(j + 1, m, ring, true);
      // A group's share is kept before the rail takes it; with one member the rail reads the input itself.
      return m > 1 && groups > 1 ? a.round(share) : share;
    };
    if (case_.algorithm == "ho_halving") return a.store(a.finish(tree(groups, d, group)), at);
    if (case_.algorithm == "ho_doubling") return a.store(a.finish(doubling(groups, group, 0)), at);
    const auto sent_group = [&](int g) { return g == d ? group(g) : a.round(group(g)); };
    if (case_.algorithm == "ho_direct") return a.store(a.finish(chain(d + 1, groups, sent_group, false)), at);
    a.store(a.finish(chain(d + 1, groups, group, true)), at);
  }

 private:
  // What the member at `distance` from the owner sends, or keeps: the shares below it, rounded on their way, and its own.
  template <typename Of>
  Value tree(int n, int owner, Of of, int distance = 0) const {
    const bool is_power_of_two = (n & (n - 1)) == 0;
    std::vector<Value> shares;
    for (int bit = 1; distance + bit < n && !(distance & bit); bit *= 2)
      shares.push_back(arithmetic_.round(tree(n, owner, of, distance + bit)));
    shares.push_back(of(is_power_of_two ? owner ^ distance : (owner + distance) % n));
    const auto share = [&](int i) { return shares[static_cast<size_t>(i)]; };
    return chain(0, static_cast<int>(shares.size()), share, false);
  }

  // Members first, ..., first + size - 1 (by default the largest power of two), each with its partner beyond.
  template <typename Of>
  Value doubling(int n, Of of, int first, int size = 0) const {
    const int pairs = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
    if (size == 0) size = pairs;
    const auto rounded = [&](int member) { return arithmetic_.round(of(member)); };
    if (size == 1 && n > 1 && first + pairs < n)
      return arithmetic_.round(arithmetic_.fold(of(first), rounded(first + pairs)));
    if (size == 1) return n > 1 ? rounded(first) : of(first);
    const Value lower = arithmetic_.round(doubling(n, of, first, size / 2));
    return arithmetic_.fold(lower, arithmetic_.round(doubling(n, of, first + size / 2, size / 2)));
  }

  // Folds of(first), of(first + 1), ... modulo `extent`, all of them, from the left.
  template <typename Of>
  Value chain(int first, int extent, Of of, bool rounds) const {
    Value value = of(first % extent);
    for (int k = 1; k < extent; ++k) {
      if (rounds) value = arithmetic_.round(value);
      value = arithmetic_.fold(value, of((first + k) % extent));
    }
    return value;
  }

  const Case& case_;
  const std::vector<std::vector<std::byte>>& inputs_;
  Arithmetic arithmetic_;
  size_t bytes_;
};

// Small magnitudes, so that products and sums of many stay finite, in every type.
void fillRandom(std::vector<std::byte>& bytes, DataType type, std::mt19937& random) {
  const size_t size = dataTypeBytes(type);
  const Arithmetic arithmetic(type, RedOp::kSum, 1);
  for (size_t at = 0; at < bytes.size(); at += size) {
    Value v;
    const auto draw = static_cast<int>(random() % 4001) - 2000;
    v.f32 = static_cast<float>(draw) / 997.0f;
    v.f64 = draw / 997.0;
    v.integer = random();
    arithmetic.store(v, bytes.data() + at);
  }
}

size_t chunksOf(const Case& c) {
  for (const char* whole : {"one_shot", "star", "doubling", "ho_leaders"})
    if (c.algorithm == whole) return 1;
  if (c.algorithm == "ho_leaders_split") return static_cast<size_t>(c.shape.groups);
  return static_cast<size_t>(c.algorithm == "ho_doubling" ? c.shape.members : c.shape.ranks());
}

size_t chunkElements(const Case& c) {
  if (c.collective != Collective::kAllReduce) return c.count;
  const size_t chunks = chunksOf(c);
  const size_t line = 64 / dataTypeBytes(c.type);
  return ((c.count + chunks - 1) / chunks + line - 1) / line * line;
}

using Buffers = std::vector<std::vector<std::byte>>;  // [position]

Buffers randomInputs(const Case& c) {
  const auto n = static_cast<size_t>(c.shape.ranks());
  const size_t blocks = c.collective == Collective::kReduceScatter ? n : 1;
  std::mt19937 random(static_cast<unsigned>(c.count * 7 + static_cast<size_t>(c.type)));
  Buffers inputs;
  for (size_t p = 0; p < n; ++p) {
    inputs.emplace_back(blocks * c.count * dataTypeBytes(c.type));
    fillRandom(inputs.back(), c.type, random);
  }
  return inputs;
}

// What each position is to hold at the end.
Buffers expectedOutputs(const Case& c, const World& world, const Buffers& inputs) {
  const size_t n = inputs.size(), bytes = dataTypeBytes(c.type);
  const Reference reference(c, inputs);
  std::vector<std::byte> output;
  const auto reduce = [&](size_t element, size_t chunk) {
    output.resize(output.size() + bytes);
    reference.reduce(element, static_cast<int>(chunk), output.data() + output.size() - bytes);
  };
  const auto rankOf = [&](size_t p) { return static_cast<size_t>(world.rankOf(static_cast<int32_t>(p))); };
  Buffers outputs;
  if (c.collective == Collective::kReduceScatter) {
    for (size_t p = 0; p < n; ++p) {
      output.clear();
      for (size_t e = 0; e < c.count; ++e) reduce(rankOf(p) * c.count + e, p);
      outputs.push_back(output);
    }
    return outputs;
  }
  if (c.collective == Collective::kAllReduce) {
    const size_t chunk = chunkElements(c);
    for (size_t e = 0; e < c.count; ++e) reduce(e, e / chunk);
  } else {
    const size_t block = c.count * bytes;
    output.resize(n * block);
    for (size_t p = 0; p < n; ++p)
      std::copy(inputs[p].begin(), inputs[p].end(),
                output.begin() + static_cast<ptrdiff_t>(rankOf(p) * block));
  }
  return Buffers(n, output);
}

class Trial {
 public:
  Trial(const Case& c, World& world, bool in_place, const Buffers& inputs)
      : case_(c), world_(world), in_place_(in_place), inputs_(inputs) {
    const size_t n = inputs.size(), block = c.count * dataTypeBytes(c.type);
    const size_t largest = c.collective == Collective::kAllReduce ? block : n * block;
    buffers_.assign(n, std::vector<std::byte>(3 * kGuard + largest, std::byte{0xa5}));
  }

  void run() {
    std::vector<Call> calls;
    Buffers inputs = inputs_;
    for (size_t p = 0; p < inputs.size(); ++p) {
      Call call;
      call.count = case_.count;
      call.type = case_.type;
      call.op = case_.op;
      call.factor = Arithmetic::factorAt(p);
      call.input = inputs[p].data();
      call.output = base(p);
      if (in_place_) placeInside(p, call);
      outputs_.push_back(call.output);
      calls.push_back(call);
    }
    ASSERT_TRUE(world_.run(calls)) << world_.operation(0).obstacle().text
                                   << world_.operation(0).status().toString();
    if (in_place_) return;
    for (size_t p = 0; p < inputs.size(); ++p) {
      ASSERT_EQ(inputs[p], inputs_[p]) << "the input was written to";
    }
  }

  void check(const Buffers& expected) const {
    for (size_t p = 0; p < expected.size(); ++p) {
      const auto differs = std::mismatch(expected[p].begin(), expected[p].end(), outputs_[p]).first;
      ASSERT_TRUE(differs == expected[p].end())
          << "position " << p << " element "
          << static_cast<size_t>(differs - expected[p].begin()) / dataTypeBytes(case_.type);
      ASSERT_TRUE(guardsIntact(p)) << "wrote outside the output of position " << p;
    }
  }

 private:
  static constexpr size_t kGuard = 64;

  // The larger buffer holds both, as each collective declares it.
  void placeInside(size_t p, Call& call) {
    std::byte* const base = this->base(p);
    const size_t block = case_.count * dataTypeBytes(case_.type);
    const size_t own = static_cast<size_t>(world_.rankOf(static_cast<int32_t>(p))) * block;
    std::byte* input = case_.collective == Collective::kAllGather ? base + own : base;
    std::copy(inputs_[p].begin(), inputs_[p].end(), input);
    call.input = input;
    call.output = case_.collective == Collective::kReduceScatter ? base + own : base;
  }

  // Aligned at every other position.
  std::byte* base(size_t p) {
    std::byte* const begin = buffers_[p].data() + kGuard;
    return begin + (p % 2 == 0 ? -reinterpret_cast<uintptr_t>(begin) % kGuard : 0);
  }

  bool guardsIntact(size_t p) const {
    const auto is_guard = [](std::byte b) { return b == std::byte{0xa5}; };
    const std::vector<std::byte>& b = buffers_[p];
    const std::byte* const first = const_cast<Trial*>(this)->base(p);
    return std::all_of(b.data(), first, is_guard) &&
           std::all_of(first + b.size() - 3 * kGuard, b.data() + b.size(), is_guard);
  }

  const Case& case_;
  World& world_;
  bool in_place_;
  const Buffers& inputs_;
  Buffers buffers_;
  std::vector<std::byte*> outputs_;
};

void runAndCheck(World& world, const Case& c) {
  const Buffers inputs = randomInputs(c), expected = expectedOutputs(c, world, inputs);
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(formatString("%s %s %dx%d %s %s count %zu%s", c.algorithm.c_str(),
                              collectiveName(c.collective), c.shape.groups, c.shape.members,
                              dataTypeName(c.type), redOpName(c.op), c.count, in_place ? " in place" : ""));
    Trial trial(c, world, in_place, inputs);
    trial.run();
    if (testing::Test::HasFatalFailure()) return;
    trial.check(expected);
    if (testing::Test::HasFatalFailure()) return;
  }
}

constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather};
constexpr size_t kCounts[] = {0, 1, 2, 7, 31, 64, 127, 1009};

struct AlgorithmShape {
  const char* algorithm;
  Shape shape;
};

void PrintTo(const AlgorithmShape& a, std::ostream* out) {
  *out << a.algorithm << ' ' << a.shape.groups << 'x' << a.shape.members;
}

class Collectives : public testing::TestWithParam<AlgorithmShape> {};

// Small slots and slices: many windows even for small counts.
TEST_P(Collectives, MatchTheClosedFormForEveryTypeAndOperation) {
  for (const Collective collective : kAll) {
    if (!findAlgorithm(GetParam().algorithm)->has(collective)) continue;
    World world({.algorithm = GetParam().algorithm,
                 .collective = collective,
                 .shape = GetParam().shape,
                 .slot_bytes = 512});
    for (int type = 0; type < kDataTypes; ++type)
      for (int op = 0; op < (collective == Collective::kAllGather ? 1 : kRedOps); ++op)
        for (const size_t count : kCounts) {
          if (!hasRedOp(static_cast<DataType>(type), static_cast<RedOp>(op))) continue;
          // It reads inputs that a rank with its own factor has not scaled yet; it is never chosen for that.
          const bool reads_unscaled = std::string_view(GetParam().algorithm).starts_with("peer_");
          if (reads_unscaled && static_cast<RedOp>(op) == RedOp::kPreMulSum) continue;
          runAndCheck(world, {GetParam().algorithm, collective, GetParam().shape, static_cast<DataType>(type),
                              static_cast<RedOp>(op), count});
          if (HasFatalFailure()) return;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Collectives,
    testing::Values(AlgorithmShape{"ring", {1, 1}}, AlgorithmShape{"ring", {1, 2}},
                    AlgorithmShape{"ring", {1, 5}}, AlgorithmShape{"serial_ring", {1, 2}},
                    AlgorithmShape{"serial_ring", {1, 5}}, AlgorithmShape{"ho_ring", {1, 3}},
                    AlgorithmShape{"ho_ring", {3, 1}}, AlgorithmShape{"ho_ring", {2, 2}},
                    AlgorithmShape{"ho_ring", {3, 4}}, AlgorithmShape{"ho_ring_direct", {3, 3}},
                    AlgorithmShape{"ho_direct", {3, 2}}, AlgorithmShape{"ho_ordered", {1, 1}},
                    AlgorithmShape{"ho_ordered", {1, 3}}, AlgorithmShape{"ho_ordered", {3, 1}},
                    AlgorithmShape{"ho_ordered", {3, 3}}, AlgorithmShape{"ho_halving", {4, 2}},
                    AlgorithmShape{"ho_halving", {3, 2}}, AlgorithmShape{"halving_doubling", {1, 4}},
                    AlgorithmShape{"halving_doubling", {1, 7}}, AlgorithmShape{"direct", {1, 2}},
                    AlgorithmShape{"direct", {1, 6}}, AlgorithmShape{"ho_doubling", {2, 3}},
                    AlgorithmShape{"ho_doubling", {7, 2}}, AlgorithmShape{"ho_doubling", {4, 1}},
                    AlgorithmShape{"ho_leaders", {2, 3}}, AlgorithmShape{"ho_leaders", {3, 2}},
                    AlgorithmShape{"ho_leaders", {4, 1}}, AlgorithmShape{"ho_leaders", {1, 3}},
                    AlgorithmShape{"ho_leaders_split", {2, 3}}, AlgorithmShape{"ho_leaders_split", {3, 2}},
                    AlgorithmShape{"ho_leaders_split", {4, 1}}, AlgorithmShape{"ho_leaders_split", {1, 3}},
                    AlgorithmShape{"doubling", {1, 4}}, AlgorithmShape{"doubling", {1, 6}},
                    AlgorithmShape{"peer_read", {1, 1}}, AlgorithmShape{"peer_read", {1, 2}},
                    AlgorithmShape{"peer_read", {1, 5}}, AlgorithmShape{"peer_write", {1, 1}},
                    AlgorithmShape{"peer_write", {1, 2}}, AlgorithmShape{"peer_write", {1, 5}},
                    AlgorithmShape{"star", {1, 1}}, AlgorithmShape{"star", {1, 5}},
                    AlgorithmShape{"one_shot", {1, 1}}, AlgorithmShape{"one_shot", {1, 5}}));

TEST(Collectives, AreRightInLargeShapes) {
  using test::sweepTo;
  for (const Collective collective : kAll)
    for (const AlgorithmShape& a :
         {AlgorithmShape{"ring", {1, sweepTo(33)}}, AlgorithmShape{"ho_ring", {sweepTo(8), sweepTo(8)}},
          AlgorithmShape{"direct", {1, sweepTo(17)}}, AlgorithmShape{"halving_doubling", {1, sweepTo(16)}},
          AlgorithmShape{"ho_halving", {6, 3}}}) {
      World world({.algorithm = a.algorithm, .collective = collective, .shape = a.shape, .slot_bytes = 1024});
      runAndCheck(world, {a.algorithm, collective, a.shape, DataType::kBfloat16, RedOp::kSum, 4099});
    }
}

// The engine keeps the layout of the previous call as far as it still holds.
TEST(Collectives, MayDifferFromTheCallBeforeInOneThingOnly) {
  for (const AlgorithmShape& a : {AlgorithmShape{"ring", {1, 3}}, AlgorithmShape{"ho_ring", {2, 2}}}) {
    World world({.algorithm = a.algorithm, .shape = a.shape, .slot_bytes = 512});
    Case c{a.algorithm, Collective::kAllReduce, a.shape, DataType::kFloat32, RedOp::kSum, 1009};
    const auto check = [&] { runAndCheck(world, c); };
    check();
    c.op = RedOp::kAvg;
    check();
    c.op = RedOp::kPreMulSum;
    check();
    c.type = DataType::kInt32;
    check();
    c.op = RedOp::kMax;
    check();
    c.count = 1008;
    check();
    c.type = DataType::kFloat64;
    check();
  }
}

TEST(Collectives, DoNotDependOnHowRanksAreNumbered) {
  // Ranks dealt out to three nodes in turn: position (group, local) is rank local * 3 + group.
  for (const Collective collective : kAll) {
    World world({.algorithm = "ho_ring",
                 .collective = collective,
                 .shape = {3, 2},
                 .slot_bytes = 512,
                 .rank_of_position = {0, 3, 1, 4, 2, 5}});
    runAndCheck(world, {"ho_ring", collective, {3, 2}, DataType::kFloat32, RedOp::kSum, 1009});
  }
}

TEST(Collectives, GiveTheSameBitsWithEveryWindow) {
  for (const int window : {1, 2, 3, 8}) {
    World world({.algorithm = "ho_ring",
                 .shape = {2, 3},
                 .window = window,
                 .slots = static_cast<uint32_t>(window) + 1,
                 .slot_bytes = 512});
    runAndCheck(world, {"ho_ring", Collective::kAllReduce, {2, 3}, DataType::kFloat16, RedOp::kAvg, 5003});
  }
}

// Past the caches or not: the same bits, wherever a buffer begins, and nothing outside it.
TEST(Collectives, GiveTheSameBitsPastTheCaches) {
  for (int simd = 0; simd <= static_cast<int>(detectSimd()); ++simd)
    for (const AlgorithmShape& a :
         {AlgorithmShape{"peer_read", {1, 2}}, AlgorithmShape{"peer_read", {1, 4}},
          AlgorithmShape{"peer_write", {1, 2}}, AlgorithmShape{"peer_write", {1, 3}},
          AlgorithmShape{"ring", {1, 3}}, AlgorithmShape{"direct", {1, 3}}})
      for (const Collective collective : kAll)
        for (const auto& [outputs, messages] :
             {std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
          if (!findAlgorithm(a.algorithm)->has(collective)) continue;
          World world({.algorithm = a.algorithm,
                       .collective = collective,
                       .shape = a.shape,
                       .simd = static_cast<Simd>(simd),
                       .stream_bytes = outputs ? 1 : SIZE_MAX,
                       .far_readers = messages});
          for (const size_t count : {size_t{1}, size_t{63}, size_t{5003}, size_t{40000}})
            for (const auto& [type, op] :
                 {std::pair{DataType::kFloat32, RedOp::kSum}, std::pair{DataType::kBfloat16, RedOp::kAvg},
                  std::pair{DataType::kInt8, RedOp::kMax}})
              runAndCheck(world, {a.algorithm, collective, a.shape, type, op, count});
        }
}

// Ranks whose inputs have addresses that are none here.
class Elsewhere final : public PeerReader {
 public:
  explicit Elsewhere(std::vector<const std::byte*> inputs) : inputs_(std::move(inputs)) {
    for (size_t p = 0; p < inputs_.size(); ++p)
      addresses_.push_back(reinterpret_cast<std::byte*>((p + 1) << 32));
  }
  const std::byte* const* addresses() const { return addresses_.data(); }
  void refuse(int32_t position) { refused_ = position; }
  Status read(int32_t position, std::byte* to, const std::byte* from, size_t bytes) override {
    if (position == refused_) return makeStatus(Code::kRemoteError, "it has moved away");
    const auto at = static_cast<size_t>(position);
    std::memcpy(to, inputs_[at] + (from - addresses_[at]), bytes);
    return {};
  }

 private:
  std::vector<const std::byte*> inputs_, addresses_;
  int32_t refused_ = -1;
};

TEST(HostOperation, ReadsInputsThatAreNotMappedByTheirReader) {
  constexpr size_t kRanks = 3, kCount = 200'000;  // several slices, the last one not full
  for (const bool in_place : {false, true}) {
    World world({.algorithm = "peer_read", .collective = Collective::kAllGather, .shape = {1, kRanks}});
    std::vector<std::vector<uint8_t>> inputs, outputs(kRanks, std::vector<uint8_t>(kRanks * kCount));
    std::vector<const std::byte*> at;
    std::vector<Call> calls(kRanks);
    for (size_t p = 0; p < kRanks; ++p) {
      inputs.emplace_back(kCount);
      for (size_t i = 0; i < kCount; ++i) inputs[p][i] = static_cast<uint8_t>(i * (p + 3) >> 3);
    }
    for (size_t p = 0; p < kRanks; ++p) {
      uint8_t* const own = in_place ? &outputs[p][p * kCount] : inputs[p].data();
      if (in_place) std::copy(inputs[p].begin(), inputs[p].end(), own);
      at.push_back(reinterpret_cast<const std::byte*>(own));
    }
    Elsewhere elsewhere(at);
    for (size_t p = 0; p < kRanks; ++p) {
      calls[p].input = at[p];
      calls[p].output = reinterpret_cast<std::byte*>(outputs[p].data());
      calls[p].count = kCount;
      calls[p].type = DataType::kUint8;
      calls[p].peer_inputs = elsewhere.addresses();
      calls[p].reader = &elsewhere;
    }
    ASSERT_TRUE(world.run(calls));
    for (const auto& output : outputs)
      for (size_t p = 0; p < kRanks; ++p)
        ASSERT_TRUE(std::equal(inputs[p].begin(), inputs[p].end(), &output[p * kCount])) << "block " << p;
    elsewhere.refuse(1);
    EXPECT_FALSE(world.run(calls));
    EXPECT_EQ(world.operation(2).status().code(), Code::kRemoteError);
    EXPECT_EQ(world.operation(2).status().message(), "rank 2: it has moved away");
  }
}

TEST(HostOperation, SaysWhoseSignalItWaitsFor) {
  World world({.algorithm = "peer_read", .shape = {1, 2}});
  std::vector<float> buffer(1024, 1.0f);
  const std::byte* inputs[] = {reinterpret_cast<std::byte*>(buffer.data()), nullptr};
  Call call;
  call.input = call.output = reinterpret_cast<std::byte*>(buffer.data());
  call.count = buffer.size();
  call.peer_inputs = inputs;
  world.operation(0).begin(call, 0);
  while (world.operation(0).poll()) {
  }
  EXPECT_FALSE(world.operation(0).done());
  EXPECT_NE(world.operation(0).obstacle().text.find("waits for a signal from rank 1"), std::string::npos)
      << world.operation(0).obstacle().text;
  EXPECT_EQ(world.operation(0).obstacle().ranks, std::vector<int32_t>{1});
}

TEST(HostOperation, SaysWhoTakesNoSignal) {
  World world({.algorithm = "peer_read", .shape = {1, 2}, .slots = 5});
  std::vector<float> buffer(1024, 1.0f);
  const std::byte* inputs[] = {reinterpret_cast<std::byte*>(buffer.data()), nullptr};
  Call call;
  call.input = call.output = reinterpret_cast<std::byte*>(buffer.data());
  call.count = buffer.size();
  call.peer_inputs = inputs;
  const auto obstacle_of = [&](uint64_t sequence) {
    world.operation(0).begin(call, sequence);
    while (world.operation(0).poll()) {
    }
    return world.operation(0).obstacle();
  };
  // Each takes a slot at rank 1, which releases none.
  for (uint64_t sequence = 0; sequence < 5; ++sequence)
    EXPECT_NE(obstacle_of(sequence).text.find("waits for a signal from rank 1"), std::string::npos);
  const Obstacle full = obstacle_of(5);
  EXPECT_NE(full.text.find("waits for rank 1 to take data"), std::string::npos) << full.text;
  EXPECT_EQ(full.ranks, std::vector<int32_t>{1});
  EXPECT_TRUE(world.operation(0).waits().all()[0].for_room);
}

// The error of position 2 of a ring of 3 when position 1 calls with one element less.
std::string complaintOf(Collective collective) {
  World world({.algorithm = "ring", .collective = collective, .shape = {1, 3}});
  std::vector<std::vector<float>> buffers(3, std::vector<float>(3 * 256, 1.0f));
  std::vector<Call> calls;
  for (size_t p = 0; p < 3; ++p) {
    Call call;
    call.input = call.output = reinterpret_cast<std::byte*>(buffers[p].data());
    call.count = p == 1 ? 255 : 256;
    calls.push_back(call);
  }
  EXPECT_FALSE(world.run(calls));
  EXPECT_EQ(world.operation(2).status().code(), Code::kInvalidUsage);
  const Obstacle obstacle = world.operation(2).obstacle();
  EXPECT_NE(obstacle.text.find("got data of another operation from rank 1"), std::string::npos)
      << obstacle.text;
  EXPECT_EQ(obstacle.ranks, std::vector<int32_t>{1});
  return world.operation(2).status().message();
}

TEST(HostOperation, SaysWhichRankIsInAnotherOperation) {
  const std::string reduction = complaintOf(Collective::kAllReduce);
  EXPECT_NE(reduction.find("got from rank 1 a message of another operation"), std::string::npos) << reduction;
  EXPECT_NE(reduction.find("(256 x float32, sum, algorithm ring)"), std::string::npos) << reduction;
  const std::string gather = complaintOf(Collective::kAllGather);
  EXPECT_NE(gather.find("(256 x float32, algorithm ring)"), std::string::npos) << gather;
}

TEST(HostOperation, DescribesWhatItWaitsFor) {
  World world({.algorithm = "ring", .shape = {1, 2}});
  std::vector<float> buffer(1024, 1.0f);
  Call call;
  call.input = call.output = reinterpret_cast<std::byte*>(buffer.data());
  call.count = buffer.size();
  world.operation(0).begin(call, 0);
  while (world.operation(0).poll()) {
  }
  EXPECT_FALSE(world.operation(0).done());
  EXPECT_NE(world.operation(0).obstacle().text.find("waits for data from rank 1"), std::string::npos)
      << world.operation(0).obstacle().text;
}

}  // namespace
}  // namespace horing
