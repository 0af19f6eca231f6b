#include "engine/host/fold.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reference_fold.h"

namespace horing {
namespace {

using test::ReferenceFold;
using test::ReferenceOperands;

std::vector<Simd> availableSimds() {
  std::vector<Simd> simds;
  for (int simd = 0; simd <= static_cast<int>(detectSimd()); ++simd) simds.push_back(static_cast<Simd>(simd));
  return simds;
}

constexpr size_t kLine = 64;  // what stores past the caches are aligned to

// Elements at a chosen distance from the start of an allocation that ends with them, so that a sanitizer sees
// a step beyond the end; the bytes before are watched by intact().
class Block {
 public:
  Block(DataType type, size_t count, size_t shift) : bytes_(count * dataTypeBytes(type)), shift_(shift) {
    element_bytes_ = dataTypeBytes(type);
    memory_.reset(new (std::align_val_t{kLine}) std::byte[shift_ + bytes_ + kGuardBytes]);
    std::memset(memory_.get(), 0x5a, shift_ + bytes_ + kGuardBytes);
  }
  Block(const Block& other, size_t shift) : Block(DataType::kUint8, other.bytes_, shift) {
    element_bytes_ = other.element_bytes_;
    std::memcpy(data(), other.data(), bytes_);
  }

  std::byte* data() const { return memory_.get() + shift_; }
  size_t bytes() const { return bytes_; }
  uint64_t at(size_t index) const {
    uint64_t bits = 0;
    std::memcpy(&bits, data() + index * element_bytes_, element_bytes_);
    return bits;
  }
  void set(size_t index, uint64_t bits) {
    std::memcpy(data() + index * element_bytes_, &bits, element_bytes_);
  }
  bool intact() const {
    for (size_t i = 0; i < shift_; ++i) {
      if (memory_[i] != std::byte{0x5a}) return false;
    }
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (memory_[shift_ + bytes_ + i] != std::byte{0x5a}) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { operator delete[](bytes, std::align_val_t{kLine}); }
  };
  static constexpr size_t kGuardBytes = 80;
  size_t bytes_;
  size_t shift_;
  size_t element_bytes_ = 1;
  std::unique_ptr<std::byte[], Free> memory_;
};

// A third of anything at all (NaN, infinities, subnormals among it), a third of small whole numbers and
// fractions, a third of a few values that meet often: zeros of both signs, extremes, ties.
uint64_t somePattern(DataType type, std::mt19937_64& random) {
  const uint64_t any = random();
  const size_t bits = dataTypeBytes(type) * 8;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const uint64_t edges[] = {0, sign, sign - 1, mask, 1, sign | 1};
  const double small = static_cast<double>(static_cast<int>(any >> 40) % 64) / 8;
  switch (any % 3) {
    case 0:
      return (any >> 2) & mask;
    case 1:
      return edges[(any >> 8) % 6];
    default:
      break;
  }
  if (type == DataType::kFloat64) return std::bit_cast<uint64_t>(small);
  if (type == DataType::kFloat32) return std::bit_cast<uint32_t>(static_cast<float>(small));
  if (!isFloatingPoint(type)) return static_cast<uint64_t>(static_cast<int64_t>(small)) & mask;
  // The patterns of ordinary numbers are around that of one.
  const test::ReferenceFormat format = test::referenceFormat(type);
  const uint64_t one = static_cast<uint64_t>(format.bias) << format.mantissa_bits;
  const uint64_t span = uint64_t{4} << format.mantissa_bits;
  return (one - span / 2 + (any >> 16) % span) | ((any >> 60) % 2 != 0 ? sign : 0);
}

// One call: its operands, and what must come out.
struct Scenario {
  Scenario(DataType element_type, size_t elements, int source_count) : type(element_type), count(elements) {
    std::mt19937_64 random(elements * 131 + static_cast<size_t>(source_count));
    for (int s = 0; s < source_count; ++s) {
      sources.emplace_back(type, count, (s % 3) * dataTypeBytes(type));
      for (size_t e = 0; e < count; ++e) sources.back().set(e, somePattern(type, random));
      is_input[s] = s % 2 == 0;
    }
  }

  std::vector<uint64_t> expected(RedOp op) const {
    const ReferenceFold reference(type, op);
    std::vector<uint64_t> values;
    ReferenceOperands operands;
    operands.number = factor.number;
    operands.integer = factor.integer;
    operands.ranks = ranks;
    operands.is_final = is_final;
    operands.is_input.assign(is_input.get(), is_input.get() + sources.size());
    for (size_t e = 0; e < count; ++e) {
      operands.bits.clear();
      for (const Block& source : sources) operands.bits.push_back(source.at(e));
      values.push_back(reference(operands));
    }
    return values;
  }

  // Folds `from` into the destinations.
  void run(RedOp op, Simd simd, const std::vector<Block>& from, std::byte* first, std::byte* second) const {
    std::vector<const std::byte*> pointers;
    for (const Block& source : from) pointers.push_back(source.data());
    FoldArguments arguments;
    arguments.sources = pointers.data();
    arguments.is_input = is_input.get();
    arguments.source_count = static_cast<int>(pointers.size());
    std::byte* const destinations[] = {first, second};
    arguments.destinations = destinations;
    arguments.destination_count = second ? 2 : 1;
    arguments.count = count;
    arguments.factor = op == RedOp::kAvg ? Factor{.number = 1.0 / ranks} : factor;
    arguments.ranks = ranks;
    arguments.is_final = is_final;
    arguments.streams_from = streams_from;
    foldFunction(type, op, simd)(arguments);
  }

  std::vector<Block> copyOfSources() const {
    std::vector<Block> copies;
    for (size_t s = 0; s < sources.size(); ++s)
      copies.emplace_back(sources[s], (s % 4) * dataTypeBytes(type));
    return copies;
  }

  DataType type;
  size_t count;
  std::vector<Block> sources;
  std::unique_ptr<bool[]> is_input{new bool[kMaxSources]()};
  Factor factor = {.number = -0.3125, .integer = 0xfedcba9876543217};
  int ranks = 3;
  bool is_final = true;
  int streams_from = INT_MAX;
};

void expectElements(const Block& block, const std::vector<uint64_t>& expected, const std::string& what) {
  for (size_t e = 0; e < expected.size(); ++e) {
    ASSERT_EQ(block.at(e), expected[e]) << what << ", element " << e << " of " << expected.size();
  }
  ASSERT_TRUE(block.intact()) << what << ": wrote beside the destination";
}

class Fold : public testing::TestWithParam<std::tuple<DataType, RedOp>> {
 protected:
  DataType type() const { return std::get<0>(GetParam()); }
  RedOp op() const { return std::get<1>(GetParam()); }
};

TEST_P(Fold, AgreesWithTheReferenceAtEverySize) {
  for (size_t count : {0, 1, 2, 3, 5, 7, 13, 16, 17, 31, 64, 67, 128, 251, 256, 509}) {
    for (int source_count : {1, 2, 3, 17}) {
      const Scenario scenario(type(), count, source_count);
      const std::vector<uint64_t> expected = scenario.expected(op());
      for (Simd simd : availableSimds()) {
        const std::string what =
            std::string(simdName(simd)) + " of " + std::to_string(source_count) + " sources";
        const Block first(type(), count, dataTypeBytes(type()));
        const Block second(type(), count, 0);
        scenario.run(op(), simd, scenario.sources, first.data(), nullptr);
        expectElements(first, expected, what);
        scenario.run(op(), simd, scenario.sources, first.data(), second.data());
        expectElements(first, expected, what + ", first of two");
        expectElements(second, expected, what + ", second of two");
      }
    }
  }
}

TEST_P(Fold, WritesOverItsOwnSources) {
  for (int source_count : {1, 2, 5}) {
    const Scenario scenario(type(), 149, source_count);
    const std::vector<uint64_t> expected = scenario.expected(op());
    for (Simd simd : availableSimds()) {
      for (int s = 0; s < source_count; ++s) {
        const std::string what = std::string(simdName(simd)) + " over source " + std::to_string(s);
        const std::vector<Block> alone = scenario.copyOfSources();
        scenario.run(op(), simd, alone, alone[s].data(), nullptr);
        expectElements(alone[s], expected, what);
        const std::vector<Block> both = scenario.copyOfSources();
        const Block& other = both[(s + 1) % source_count];
        scenario.run(op(), simd, both, both[s].data(), other.data());
        expectElements(both[s], expected, what + ", first of two");
        expectElements(other, expected, what + ", second of two");
      }
    }
  }
}

TEST_P(Fold, StoresPastTheCachesWhatItStoresElse) {
  const size_t element = dataTypeBytes(type());
  // Of both destinations, in bytes: all in the same place of a line, in none that begins with an element, each in its own.
  const std::pair<size_t, size_t> shifts[] = {
      {0, 0}, {0, kLine},   {element, element},    {3 * element, 3 * element},
      {1, 1}, {0, element}, {element, 2 * element}};
  for (size_t count : {1, 15, 64, 67, 509, 2048}) {
    for (int source_count : {1, 2, 4}) {
      Scenario scenario(type(), count, source_count);
      const std::vector<uint64_t> expected = scenario.expected(op());
      for (int streams_from : {0, 1}) {
        scenario.streams_from = streams_from;
        for (const auto& [to_first, to_second] : shifts) {
          for (Simd simd : availableSimds()) {
            const std::string what = std::string(simdName(simd)) + " of " + std::to_string(source_count) +
                                     " sources to " + std::to_string(to_first) + " and " +
                                     std::to_string(to_second) + ", from destination " +
                                     std::to_string(streams_from);
            const Block first(type(), count, to_first);
            const Block second(type(), count, to_second);
            scenario.run(op(), simd, scenario.sources, first.data(), second.data());
            streamFence();
            expectElements(first, expected, what);
            expectElements(second, expected, what + ", second of two");
          }
        }
      }
    }
  }
}

// Every pair of 8-bit numbers; as many pairs of the other types.
TEST_P(Fold, AgreesWithTheReferenceOnPairs) {
  Scenario scenario(type(), 65536, 2);
  if (dataTypeBytes(type()) == 1) {
    for (size_t e = 0; e < scenario.count; ++e) {
      scenario.sources[0].set(e, e % 256);
      scenario.sources[1].set(e, e / 256);
    }
  }
  const std::vector<uint64_t> expected = scenario.expected(op());
  for (Simd simd : availableSimds()) {
    const Block result(type(), scenario.count, 0);
    scenario.run(op(), simd, scenario.sources, result.data(), nullptr);
    expectElements(result, expected, simdName(simd));
  }
}

TEST_P(Fold, AgreesWithTheReferenceUpToTheLimitOfSources) {
  const Scenario scenario(type(), 37, kMaxSources);
  const std::vector<uint64_t> expected = scenario.expected(op());
  for (Simd simd : availableSimds()) {
    const Block result(type(), scenario.count, 0);
    scenario.run(op(), simd, scenario.sources, result.data(), nullptr);
    expectElements(result, expected, simdName(simd));
  }
}

std::string caseName(const testing::TestParamInfo<std::tuple<DataType, RedOp>>& value) {
  return std::string(dataTypeName(std::get<0>(value.param))) + "_" + redOpName(std::get<1>(value.param));
}

std::vector<DataType> everyType() {
  std::vector<DataType> types;
  for (int type = 0; type < kDataTypes; ++type) types.push_back(static_cast<DataType>(type));
  return types;
}

std::vector<std::tuple<DataType, RedOp>> everyTypeAndOperation() {
  std::vector<std::tuple<DataType, RedOp>> all;
  for (const DataType type : everyType())
    for (int op = 0; op < kRedOps; ++op)
      if (hasRedOp(type, static_cast<RedOp>(op))) all.emplace_back(type, static_cast<RedOp>(op));
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryTypeAndOperation, Fold, testing::ValuesIn(everyTypeAndOperation()), caseName);

TEST(FoldFunction, IsThereExactlyForTheOperationsThatATypeHas) {
  for (const DataType type : everyType())
    for (int op = 0; op < kRedOps; ++op)
      for (const Simd simd : availableSimds())
        EXPECT_EQ(foldFunction(type, static_cast<RedOp>(op), simd) != nullptr,
                  hasRedOp(type, static_cast<RedOp>(op)))
            << dataTypeName(type) << ' ' << redOpName(static_cast<RedOp>(op));
}

class FoldAverage : public testing::TestWithParam<DataType> {};

TEST_P(FoldAverage, ScalesAsTheStepAsks) {
  for (int ranks : {1, 2, 3, 7, 100, 1000, 16384}) {
    for (bool is_final : {false, true}) {
      for (int source_count : {1, 2, 4}) {
        Scenario scenario(GetParam(), 83, source_count);
        scenario.ranks = ranks;
        scenario.is_final = is_final;
        for (bool first_is_input : {false, true}) {
          scenario.is_input[0] = first_is_input;
          const std::vector<uint64_t> expected = scenario.expected(RedOp::kAvg);
          for (Simd simd : availableSimds()) {
            const Block result(GetParam(), scenario.count, 0);
            scenario.run(RedOp::kAvg, simd, scenario.sources, result.data(), nullptr);
            expectElements(result, expected,
                           std::string(simdName(simd)) + ", ranks " + std::to_string(ranks));
          }
        }
      }
    }
  }
}

TEST_P(FoldAverage, IsASumOfInputsScaledByAnyFactor) {
  for (const double number : {1.0, 0.0, -1.0, 3.0, 0x1p-20, 1e30, HUGE_VAL, std::nan("")}) {
    for (const uint64_t integer : {uint64_t{1}, uint64_t{0}, uint64_t{0x0101010101010101}, ~uint64_t{0}}) {
      for (int source_count : {1, 2, 4}) {
        Scenario scenario(GetParam(), 83, source_count);
        scenario.factor = {number, integer};
        for (bool first_is_input : {false, true}) {
          scenario.is_input[0] = first_is_input;
          const std::vector<uint64_t> expected = scenario.expected(RedOp::kPreMulSum);
          for (Simd simd : availableSimds()) {
            const Block result(GetParam(), scenario.count, 0);
            scenario.run(RedOp::kPreMulSum, simd, scenario.sources, result.data(), nullptr);
            expectElements(result, expected,
                           std::string(simdName(simd)) + ", factor " + std::to_string(number));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, FoldAverage, testing::ValuesIn(everyType()),
                         [](const auto& value) { return dataTypeName(value.param); });

// Folds single elements of one type, given and taken as bit patterns.
uint64_t foldOne(DataType type, RedOp op, Simd simd, std::vector<uint64_t> operands) {
  Scenario scenario(type, 1, static_cast<int>(operands.size()));
  for (size_t s = 0; s < operands.size(); ++s) scenario.sources[s].set(0, operands[s]);
  const Block result(type, 1, 0);
  scenario.run(op, simd, scenario.sources, result.data(), nullptr);
  return result.at(0);
}

// The reference is tested too: these results are written out by hand.
TEST(FoldByHand, IntegersWrapAround) {
  for (Simd simd : availableSimds()) {
    EXPECT_EQ(foldOne(DataType::kInt8, RedOp::kSum, simd, {0x7f, 0x01}), 0x80u);
    EXPECT_EQ(foldOne(DataType::kInt32, RedOp::kSum, simd, {0x7fffffff, 2}), 0x80000001u);
    EXPECT_EQ(foldOne(DataType::kInt64, RedOp::kProd, simd, {0x8000000000000000, 3}), 0x8000000000000000u);
    EXPECT_EQ(foldOne(DataType::kInt32, RedOp::kAvg, simd, {0xfffffffc, 0, 0}), 0xffffffffu) << "-4 / 3";
    EXPECT_EQ(foldOne(DataType::kInt8, RedOp::kMin, simd, {0x80, 0x7f}), 0x80u);
    EXPECT_EQ(foldOne(DataType::kUint8, RedOp::kMin, simd, {0x80, 0x7f}), 0x7fu);
    EXPECT_EQ(foldOne(DataType::kUint8, RedOp::kBitAnd, simd, {0xfc, 0x3f}), 0x3cu);
    EXPECT_EQ(foldOne(DataType::kInt32, RedOp::kBitOr, simd, {0x80000000, 1}), 0x80000001u);
    EXPECT_EQ(foldOne(DataType::kInt64, RedOp::kBitXor, simd, {0xff, 0x0f, 1}), 0xf1u);
  }
}

TEST(FoldByHand, FactorsAreReadInTheirType) {
  const auto from = [](DataType type, uint64_t bits) { return factorFrom(type, &bits); };
  EXPECT_EQ(from(DataType::kInt8, 0xff).integer, ~uint64_t{0});
  EXPECT_EQ(from(DataType::kUint8, 0xff).integer, 0xffu);
  EXPECT_EQ(from(DataType::kInt32, 0x80000000).integer, 0xffffffff80000000u);
  EXPECT_EQ(from(DataType::kUint32, 0x80000000).integer, 0x80000000u);
  EXPECT_EQ(from(DataType::kInt64, 0x8000000000000001).integer, 0x8000000000000001u);
  EXPECT_EQ(from(DataType::kUint64, 0x8000000000000001).integer, 0x8000000000000001u);
  EXPECT_EQ(from(DataType::kFloat16, 0xb800).number, -0.5);
  EXPECT_EQ(from(DataType::kBfloat16, 0x4040).number, 3.0);
  EXPECT_EQ(from(DataType::kFloat8e4m3, 0x40).number, 2.0);
  EXPECT_EQ(from(DataType::kFloat8e5m2, 0x40).number, 2.0);
  EXPECT_EQ(from(DataType::kFloat32, 0x3dcccccd).number, static_cast<double>(0.1f));
  EXPECT_EQ(from(DataType::kFloat64, 0x3fb999999999999a).number, 0.1);
}

TEST(FoldByHand, RoundsOnceAfterTheLastOperand) {
  for (Simd simd : availableSimds()) {
    // 2048 + 1 + 1: with a rounding after each addition it stays 2048.
    EXPECT_EQ(foldOne(DataType::kFloat16, RedOp::kSum, simd, {0x6800, 0x3c00, 0x3c00}), 0x6801u);
    // 256 + 1 + 1.
    EXPECT_EQ(foldOne(DataType::kBfloat16, RedOp::kSum, simd, {0x4380, 0x3f80, 0x3f80}), 0x4381u);
    // 16 + 1 + 1, and 448 + 448.
    EXPECT_EQ(foldOne(DataType::kFloat8e4m3, RedOp::kSum, simd, {0x58, 0x38, 0x38}), 0x59u);
    EXPECT_EQ(foldOne(DataType::kFloat8e4m3, RedOp::kSum, simd, {0x7e, 0x7e}), 0x7eu);
    // 8 + 1 + 1.
    EXPECT_EQ(foldOne(DataType::kFloat8e5m2, RedOp::kSum, simd, {0x48, 0x3c, 0x3c}), 0x49u);
  }
}

TEST(FoldByHand, NanWinsAndNegativeZeroIsBelowZero) {
  for (Simd simd : availableSimds()) {
    for (RedOp op : {RedOp::kMin, RedOp::kMax}) {
      EXPECT_EQ(foldOne(DataType::kFloat32, op, simd, {0xff800001, 0x3f800000}), 0x7fc00000u);
      EXPECT_EQ(foldOne(DataType::kFloat32, op, simd, {0x3f800000, 0xff800001}), 0x7fc00000u);
      EXPECT_EQ(foldOne(DataType::kFloat8e4m3, op, simd, {0xff, 0x01, 0x02}), 0x7fu);
      EXPECT_EQ(foldOne(DataType::kFloat16, op, simd, {0x3c00, 0xfc01}), 0x7e00u);
    }
    EXPECT_EQ(foldOne(DataType::kFloat32, RedOp::kMin, simd, {0, 0x80000000}), 0x80000000u);
    EXPECT_EQ(foldOne(DataType::kFloat32, RedOp::kMin, simd, {0x80000000, 0}), 0x80000000u);
    EXPECT_EQ(foldOne(DataType::kFloat64, RedOp::kMax, simd, {0x8000000000000000, 0}), 0u);
    EXPECT_EQ(foldOne(DataType::kBfloat16, RedOp::kMax, simd, {0, 0x8000}), 0u);
    EXPECT_EQ(foldOne(DataType::kFloat8e5m2, RedOp::kMax, simd, {0x7c, 0x7b}), 0x7cu);
    // IEEE 754 where the format has infinities; the largest number where it has none.
    EXPECT_EQ(foldOne(DataType::kFloat8e5m2, RedOp::kSum, simd, {0x7c, 0xfb}), 0x7cu);
    EXPECT_EQ(foldOne(DataType::kFloat8e5m2, RedOp::kSum, simd, {0xfb, 0xfb}), 0xfcu);
    EXPECT_EQ(foldOne(DataType::kFloat8e4m3, RedOp::kSum, simd, {0x7e, 0x7e}), 0x7eu);
  }
}

TEST(CopyBytes, FillsOneOrTwoDestinations) {
  for (size_t bytes : {0, 1, 100, 8192, 8193, 100003}) {
    Block source(DataType::kUint8, bytes, 1);
    for (size_t i = 0; i < bytes; ++i) source.set(i, i * 7 % 251);
    const Block first(DataType::kUint8, bytes, 3);
    const Block second(DataType::kUint8, bytes, 0);
    const Block third(DataType::kUint8, bytes, 0);
    copyBytes(source.data(), first.data(), nullptr, bytes);
    copyBytes(first.data(), second.data(), third.data(), bytes);
    for (const Block* block : {&first, &second, &third}) {
      EXPECT_TRUE(bytes == 0 || std::memcmp(block->data(), source.data(), bytes) == 0) << bytes;
      EXPECT_TRUE(block->intact()) << bytes;
    }
  }
}

TEST(CopyBytes, AcceptsTheSourceAsADestination) {
  Block source(DataType::kUint8, 1000, 0);
  for (size_t i = 0; i < 1000; ++i) source.set(i, i % 256);
  const Block other(DataType::kUint8, 1000, 0);
  copyBytes(source.data(), source.data(), other.data(), 1000);
  EXPECT_EQ(std::memcmp(other.data(), source.data(), 1000), 0);
  const Block another(DataType::kUint8, 1000, 0);
  copyBytes(source.data(), another.data(), source.data(), 1000);
  EXPECT_EQ(std::memcmp(another.data(), source.data(), 1000), 0);
  copyBytes(source.data(), source.data(), nullptr, 1000);
  EXPECT_EQ(source.at(999), 999u % 256);
}

}  // namespace
}  // namespace horing
