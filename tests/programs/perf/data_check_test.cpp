#include "perf/data_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "perf/element.h"

namespace horing::perf {
namespace {

constexpr size_t kElements = 257;

uint64_t load(const std::vector<std::byte>& from, size_t index, size_t width) {
  uint64_t bits = 0;
  std::memcpy(&bits, from.data() + index * width, width);
  return bits;
}

std::vector<std::byte> filledSend(const CheckedOperation& operation, int rank, size_t elements) {
  std::vector<std::byte> out(elements * dataTypeBytes(operation.type));
  fillInput(operation, rank, 0, out.data(), elements);
  return out;
}

std::vector<std::byte> filledExpected(const CheckedOperation& operation, size_t elements) {
  std::vector<std::byte> out(elements * dataTypeBytes(operation.type));
  fillExpected(operation, 0, out.data(), elements);
  return out;
}

double combine(RedOp op, double a, double b) {
  if (op == RedOp::kProd) return a * b;
  if (op == RedOp::kMax) return std::max(a, b);
  return op == RedOp::kMin ? std::min(a, b) : a + b;
}

// Reduces one element over the ranks in the given order, rounding to the type after every single operation.
uint64_t reduceInOrder(const CheckedOperation& operation, const std::vector<std::vector<std::byte>>& inputs,
                       const std::vector<size_t>& order, size_t element) {
  const size_t width = dataTypeBytes(operation.type);
  const auto read = [&](size_t rank) {
    const double value = decodeElement(operation.type, load(inputs[rank], element, width));
    if (operation.op != RedOp::kAvg) return value;
    return operation.type == DataType::kFloat64
               ? value * (1.0 / operation.ranks)
               : double(float(value) * (1.0f / static_cast<float>(operation.ranks)));
  };
  uint64_t bits = encodeElement(operation.type, read(order[0]));
  for (size_t i = 1; i < order.size(); ++i)
    bits = encodeElement(operation.type,
                         combine(*operation.op, decodeElement(operation.type, bits), read(order[i])));
  return bits;
}

std::vector<std::byte> reduceAll(const CheckedOperation& operation, uint32_t shuffle_seed) {
  const size_t width = dataTypeBytes(operation.type);
  std::vector<std::vector<std::byte>> inputs;
  for (int r = 0; r < operation.ranks; ++r) inputs.push_back(filledSend(operation, r, kElements));
  std::vector<size_t> order(inputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(shuffle_seed);
  std::vector<std::byte> result(kElements * width);
  for (size_t i = 0; i < kElements; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    const uint64_t bits = reduceInOrder(operation, inputs, order, i);
    std::memcpy(result.data() + i * width, &bits, width);
  }
  return result;
}

constexpr DataType kFloats[] = {DataType::kFloat16, DataType::kBfloat16,   DataType::kFloat32,
                                DataType::kFloat64, DataType::kFloat8e4m3, DataType::kFloat8e5m2};
constexpr RedOp kOps[] = {RedOp::kSum, RedOp::kProd, RedOp::kMin, RedOp::kMax, RedOp::kAvg};
constexpr RedOp kIntegerOps[] = {RedOp::kSum, RedOp::kProd,   RedOp::kMin,   RedOp::kMax,
                                 RedOp::kAvg, RedOp::kBitAnd, RedOp::kBitOr, RedOp::kBitXor};

TEST(CheckedData, HasOneFloatResultInEveryOrderOfReduction) {
  for (const DataType type : kFloats)
    for (const RedOp op : kOps)
      for (const int ranks : {1, 2, 3, 5, 8, 16, 33}) {
        const CheckedOperation operation = {type, op, ranks, 11};
        const std::vector<std::byte> expected = filledExpected(operation, kElements);
        for (uint32_t seed = 0; seed < 3; ++seed) {
          const std::vector<std::byte> result = reduceAll(operation, seed);
          ASSERT_EQ(countWrong(operation, result.data(), expected.data(), kElements), 0u)
              << dataTypeName(type) << ' ' << redOpName(op) << " over " << ranks;
        }
      }
}

template <typename T>
void expectIntegersRight(DataType type, RedOp op, int ranks) {
  using Unsigned = std::make_unsigned_t<T>;
  const CheckedOperation operation = {type, op, ranks, 5};
  std::vector<std::byte> result(kElements * sizeof(T));
  for (size_t i = 0; i < kElements; ++i) {
    Unsigned folded = 0;
    for (int r = 0; r < ranks; ++r) {
      const auto value = static_cast<Unsigned>(load(filledSend(operation, r, i + 1), i, sizeof(T)));
      if (r == 0)
        folded = value;
      else if (op == RedOp::kProd)
        folded = static_cast<Unsigned>(folded * value);
      else if (op == RedOp::kMax)
        folded = static_cast<Unsigned>(std::max<T>(static_cast<T>(folded), static_cast<T>(value)));
      else if (op == RedOp::kMin)
        folded = static_cast<Unsigned>(std::min<T>(static_cast<T>(folded), static_cast<T>(value)));
      else if (op == RedOp::kBitAnd)
        folded = static_cast<Unsigned>(folded & value);
      else if (op == RedOp::kBitOr)
        folded = static_cast<Unsigned>(folded | value);
      else if (op == RedOp::kBitXor)
        folded = static_cast<Unsigned>(folded ^ value);
      else
        folded = static_cast<Unsigned>(folded + value);
    }
    if (op == RedOp::kAvg) folded = static_cast<Unsigned>(static_cast<T>(folded) / static_cast<T>(ranks));
    std::memcpy(result.data() + i * sizeof(T), &folded, sizeof(T));
  }
  const std::vector<std::byte> expected = filledExpected(operation, kElements);
  EXPECT_EQ(countWrong(operation, result.data(), expected.data(), kElements), 0u)
      << dataTypeName(type) << ' ' << redOpName(op) << " over " << ranks;
}

TEST(CheckedData, HasTheExactIntegerResult) {
  for (const RedOp op : kIntegerOps)
    for (const int ranks : {1, 2, 3, 7}) {
      expectIntegersRight<int8_t>(DataType::kInt8, op, ranks);
      expectIntegersRight<uint8_t>(DataType::kUint8, op, ranks);
      expectIntegersRight<int32_t>(DataType::kInt32, op, ranks);
      expectIntegersRight<uint32_t>(DataType::kUint32, op, ranks);
      expectIntegersRight<int64_t>(DataType::kInt64, op, ranks);
      expectIntegersRight<uint64_t>(DataType::kUint64, op, ranks);
    }
}

TEST(CheckedData, DependsOnEveryRank) {
  // If an input could be left out unnoticed the check would be worth nothing.
  for (int t = 0; t < kDataTypes; ++t) {
    const CheckedOperation operation = {static_cast<DataType>(t), RedOp::kSum, 4, 3};
    const size_t width = dataTypeBytes(operation.type);
    for (int rank = 0; rank < operation.ranks; ++rank) {
      const std::vector<std::byte> input = filledSend(operation, rank, kElements);
      size_t telling = 0;
      for (size_t i = 0; i < kElements; ++i) telling += load(input, i, width) != 0 ? 1 : 0;
      EXPECT_GT(telling, kElements / 4) << dataTypeName(operation.type) << " rank " << rank;
    }
  }
}

TEST(CheckedData, OfAPartIsAPartOfTheWhole) {
  for (const std::optional<RedOp> op : {std::optional<RedOp>(), std::optional(RedOp::kSum)})
    for (const DataType type : {DataType::kInt32, DataType::kFloat16, DataType::kInt8}) {
      const CheckedOperation operation = {type, op, 4, 9};
      const size_t width = dataTypeBytes(type);
      const size_t first = 3 * kElements;
      const std::vector<std::byte> all = filledExpected(operation, 4 * kElements);
      const std::vector<std::byte> sent = filledSend(operation, 2, 4 * kElements);
      std::vector<std::byte> part(kElements * width);
      fillExpected(operation, first, part.data(), kElements);
      EXPECT_EQ(std::memcmp(part.data(), all.data() + first * width, part.size()), 0);
      fillInput(operation, 2, first, part.data(), kElements);
      EXPECT_EQ(std::memcmp(part.data(), sent.data() + first * width, part.size()), 0);
    }
}

TEST(CheckedData, ThatIsMovedArrivesAsItWasSent) {
  const CheckedOperation operation = {DataType::kFloat16, std::nullopt, 3, 9};
  EXPECT_EQ(filledSend(operation, 1, kElements), filledExpected(operation, kElements));
}

TEST(CheckedData, ThatIsMovedDiffersFromPlaceToPlace) {
  const CheckedOperation operation = {DataType::kInt64, std::nullopt, 3, 9};
  const std::vector<std::byte> data = filledExpected(operation, kElements);
  std::set<uint64_t> values;
  for (size_t i = 0; i < kElements; ++i) values.insert(load(data, i, 8));
  EXPECT_EQ(values.size(), kElements);
}

TEST(CountWrong, FindsEachCorruptedElementOnce) {
  for (const std::optional<RedOp> op : {std::optional<RedOp>(), std::optional(RedOp::kSum)})
    for (int t = 0; t < kDataTypes; ++t) {
      const CheckedOperation operation = {static_cast<DataType>(t), op, 2, 1};
      const size_t width = dataTypeBytes(operation.type);
      const std::vector<std::byte> expected = filledExpected(operation, kElements);
      std::vector<std::byte> actual = expected;
      EXPECT_EQ(countWrong(operation, actual.data(), expected.data(), kElements), 0u);
      for (const size_t element : {size_t{0}, size_t{100}, kElements - 1})
        actual[element * width] ^= std::byte{1};
      EXPECT_EQ(countWrong(operation, actual.data(), expected.data(), kElements), 3u)
          << dataTypeName(operation.type);
    }
}

TEST(CountWrong, AllowsTwoUnitsOnlyForAnAverageOfFloats) {
  CheckedOperation operation = {DataType::kFloat32, RedOp::kAvg, 3, 1};
  const float expected[] = {1.0f};
  const uint32_t bits[] = {0x3f800002, 0x3f800003};
  const auto wrong = [&](uint32_t value) {
    std::byte actual[4];
    std::byte wanted[4];
    std::memcpy(actual, &value, 4);
    std::memcpy(wanted, expected, 4);
    return countWrong(operation, actual, wanted, 1);
  };
  EXPECT_EQ(wrong(bits[0]), 0u);
  EXPECT_EQ(wrong(bits[1]), 1u);
  operation.op = RedOp::kSum;
  EXPECT_EQ(wrong(bits[0]), 1u);
}

}  // namespace
}  // namespace horing::perf
