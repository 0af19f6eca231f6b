// The body that moves data on GPUs, run on the host: the same bits as the host engine for every type and operation.
#include "engine/host/fold.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "engine/cuda/fold_body.h"
#include "rules.h"

namespace horing {
namespace {

using cuda::FoldScale;
using cuda::FoldWork;

template <class R>
struct FoldOf {
  static constexpr void (*value)(const FoldScale&, const FoldWork&) = cuda::foldSlice<R>;
};

// Bytes at a chosen distance from an address that is aligned to 64.
struct Shifted {
  Shifted(size_t bytes, size_t shift) : memory(bytes + 192, std::byte{0x5a}), at(shift) {
    at += (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  }
  std::byte* data() { return memory.data() + at; }
  std::vector<std::byte> memory;
  size_t at;
};

struct Scenario {
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  size_t count = 0;
  int sources = 1;
  size_t shift = 0;  // elements by which all buffers are off the alignment
  bool is_final = true;
  bool first_is_input = true;
  uint32_t threads = 5;

  std::string text() const {
    return formatString("%zu elements, %d sources, shift %zu, %u threads, final %d, first is input %d", count,
                        sources, shift, threads, is_final, first_is_input);
  }
};

// Any patterns, every other element a small number so that sums are seldom NaN.
void fill(Shifted& block, const Scenario& s, std::mt19937_64& random) {
  const size_t size = dataTypeBytes(s.type);
  for (size_t e = 0; e < s.count; ++e) {
    uint64_t bits = random();
    if (e % 2 == 1 && isFloatingPoint(s.type)) {
      const float small = static_cast<float>(static_cast<int>(bits % 2001) - 1000) / 64.0f;
      if (s.type == DataType::kFloat64) {
        bits = cuda::bitsAs<uint64_t>(static_cast<double>(small));
      } else if (s.type == DataType::kFloat32) {
        bits = cuda::bitsAs<uint32_t>(small);
      } else if (s.type == DataType::kBfloat16) {
        bits = floatToBfloat16(small);
      } else if (s.type == DataType::kFloat16) {
        bits = floatToFloat16(small);
      } else {
        bits = s.type == DataType::kFloat8e4m3 ? floatToFloat8e4m3(small) : floatToFloat8e5m2(small);
      }
    }
    std::memcpy(block.data() + e * size, &bits, size);
  }
}

void expectTheHostsBits(const Scenario& s) {
  const size_t size = dataTypeBytes(s.type), bytes = s.count * size, shift = s.shift * size;
  std::mt19937_64 random(s.count * 31 + static_cast<size_t>(s.sources));
  std::vector<Shifted> sources;
  std::vector<const std::byte*> pointers;
  std::vector<uint8_t> is_input;
  bool host_is_input[64] = {};
  for (int i = 0; i < s.sources; ++i) {
    sources.emplace_back(bytes, shift);
    fill(sources.back(), s, random);
    is_input.push_back((i % 2 == 0) == s.first_is_input);
    host_is_input[i] = is_input.back() != 0;
  }
  for (Shifted& source : sources) pointers.push_back(source.data());
  const Factor factor = s.op == RedOp::kAvg ? Factor{.number = 1.0 / 3}
                                            : Factor{.number = -0.3125, .integer = 0xfedcba9876543217};
  Shifted expected(bytes, shift);
  FoldArguments arguments;
  arguments.sources = pointers.data();
  arguments.is_input = host_is_input;
  arguments.source_count = s.sources;
  std::byte* const destination = expected.data();
  arguments.destinations = &destination;
  arguments.destination_count = 1;
  arguments.count = s.count;
  arguments.factor = factor;
  arguments.ranks = 3;
  arguments.is_final = s.is_final;
  foldFunction(s.type, s.op, Simd::kPlain)(arguments);

  Shifted first(bytes, shift), second(bytes, shift);
  const auto fold = test::ruleFor<FoldOf>(s.type, s.op);
  std::byte* const both[] = {first.data(), second.data()};
  for (uint32_t thread = 0; thread < s.threads; ++thread)
    fold({factor, 3, s.is_final},
         {pointers.data(), is_input.data(), s.sources, both, 2, s.count, thread, s.threads});
  for (Shifted* got : {&first, &second}) {
    for (size_t e = 0; e < s.count; ++e)
      ASSERT_EQ(std::memcmp(got->data() + e * size, expected.data() + e * size, size), 0)
          << s.text() << ", element " << e;
    ASSERT_EQ(got->data()[bytes], std::byte{0x5a}) << s.text() << ": wrote beyond the end";
  }
  // In place: over the last source, with a second destination, and over the only one.
  std::byte* const in_place[] = {sources.back().data(), second.data()};
  for (uint32_t thread = 0; thread < s.threads; ++thread)
    fold({factor, 3, s.is_final},
         {pointers.data(), is_input.data(), s.sources, in_place, 2, s.count, thread, s.threads});
  ASSERT_EQ(std::memcmp(sources.back().data(), expected.data(), bytes), 0) << s.text() << ", in place";
  ASSERT_EQ(std::memcmp(second.data(), expected.data(), bytes), 0) << s.text() << ", in place and a copy";
}

class CudaFold : public testing::TestWithParam<std::tuple<DataType, RedOp>> {};

TEST_P(CudaFold, GivesTheBitsOfTheHostEngine) {
  Scenario s;
  s.type = std::get<0>(GetParam());
  s.op = std::get<1>(GetParam());
  for (const size_t count : {0, 1, 3, 16, 17, 255, 1024, 5003})
    for (const int sources : {1, 2, 3, 9})
      for (const size_t shift : {0, 1}) {
        s.count = count;
        s.sources = sources;
        s.shift = shift;
        for (const uint32_t threads : {1u, 7u}) {
          s.threads = threads;
          expectTheHostsBits(s);
        }
      }
}

TEST_P(CudaFold, ScalesAsTheStepAsks) {
  Scenario s;
  s.type = std::get<0>(GetParam());
  s.op = std::get<1>(GetParam());
  s.count = 777;
  for (const int sources : {1, 2})
    for (const bool is_final : {false, true})
      for (const bool first_is_input : {false, true}) {
        s.sources = sources;
        s.is_final = is_final;
        s.first_is_input = first_is_input;
        expectTheHostsBits(s);
      }
}

std::vector<std::tuple<DataType, RedOp>> everyTypeAndOperation() {
  std::vector<std::tuple<DataType, RedOp>> all;
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op)
      if (hasRedOp(static_cast<DataType>(type), static_cast<RedOp>(op)))
        all.emplace_back(static_cast<DataType>(type), static_cast<RedOp>(op));
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryTypeAndOperation, CudaFold, testing::ValuesIn(everyTypeAndOperation()),
                         [](const auto& value) {
                           return std::string(dataTypeName(std::get<0>(value.param))) + "_" +
                                  redOpName(std::get<1>(value.param));
                         });

// Every pair of 8-bit patterns.
void expectTheHostsPairs(DataType type, RedOp op) {
  std::vector<uint8_t> a, b;
  for (unsigned pair = 0; pair < 65536; ++pair) {
    a.push_back(static_cast<uint8_t>(pair % 256));
    b.push_back(static_cast<uint8_t>(pair / 256));
  }
  std::vector<uint8_t> expected(a.size()), got(a.size());
  const std::byte* sources[] = {reinterpret_cast<std::byte*>(a.data()),
                                reinterpret_cast<std::byte*>(b.data())};
  const bool host_is_input[] = {true, true};
  const uint8_t is_input[] = {1, 1};
  FoldArguments arguments;
  arguments.sources = sources;
  arguments.is_input = host_is_input;
  arguments.source_count = 2;
  std::byte* const destination = reinterpret_cast<std::byte*>(expected.data());
  arguments.destinations = &destination;
  arguments.destination_count = 1;
  arguments.count = a.size();
  arguments.ranks = 2;
  arguments.is_final = true;
  foldFunction(type, op, Simd::kPlain)(arguments);
  std::byte* const destinations[] = {reinterpret_cast<std::byte*>(got.data())};
  FoldWork work{sources, is_input, 2, destinations, 1, a.size(), 0, 1};
  test::ruleFor<FoldOf>(type, op)({Factor{}, 2, true}, work);
  for (size_t pair = 0; pair < a.size(); ++pair)
    ASSERT_EQ(got[pair], expected[pair]) << dataTypeName(type) << ' ' << redOpName(op) << " of "
                                         << unsigned{a[pair]} << " and " << unsigned{b[pair]};
}

TEST(CudaFoldPairs, OfEightBitsGiveTheBitsOfTheHostEngine) {
  for (const auto& [type, op] : everyTypeAndOperation())
    if (dataTypeBytes(type) == 1) expectTheHostsPairs(type, op);
}

TEST(CudaFoldRule, IsThereExactlyForTheOperationsThatATypeHas) {
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      EXPECT_EQ(test::ruleFor<FoldOf>(t, o) != nullptr, hasRedOp(t, o))
          << dataTypeName(t) << ' ' << redOpName(o);
    }
}

}  // namespace
}  // namespace horing
