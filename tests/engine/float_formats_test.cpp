#include "engine/host/float_formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "reference_formats.h"

namespace horing {
namespace {

using test::referenceFormat;
using test::ReferenceFormat;
using test::ReferenceNarrowing;
using test::referenceWiden;

float widen(DataType type, uint32_t code) {
  switch (type) {
    case DataType::kFloat16:
      return float16ToFloat(static_cast<uint16_t>(code));
    case DataType::kBfloat16:
      return bfloat16ToFloat(static_cast<uint16_t>(code));
    case DataType::kFloat8e4m3:
      return float8e4m3ToFloat(static_cast<uint8_t>(code));
    default:
      return float8e5m2ToFloat(static_cast<uint8_t>(code));
  }
}

uint32_t narrow(DataType type, float value) {
  switch (type) {
    case DataType::kFloat16:
      return floatToFloat16(value);
    case DataType::kBfloat16:
      return floatToBfloat16(value);
    case DataType::kFloat8e4m3:
      return floatToFloat8e4m3(value);
    default:
      return floatToFloat8e5m2(value);
  }
}

class FloatFormats : public testing::TestWithParam<DataType> {};

TEST_P(FloatFormats, WidenEveryCodeExactly) {
  const ReferenceFormat format = referenceFormat(GetParam());
  for (uint32_t code = 0; code < 1u << format.bits(); ++code) {
    const double expected = referenceWiden(format, code);
    const float widened = widen(GetParam(), code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << std::hex << code;
    } else {
      ASSERT_EQ(static_cast<double>(widened), expected) << std::hex << code;
      ASSERT_EQ(std::signbit(widened), (code & format.signBit()) != 0) << std::hex << code;
    }
  }
}

TEST_P(FloatFormats, NarrowEveryNumberToItself) {
  const ReferenceFormat format = referenceFormat(GetParam());
  for (uint32_t code = 0; code < 1u << format.bits(); ++code) {
    const uint32_t magnitude = code & (format.signBit() - 1);
    const bool is_infinity = format.has_infinity && magnitude == format.largest_code + 1;
    uint32_t expected = code;
    if (is_infinity && format.saturates) expected = (code & format.signBit()) | format.largest_code;
    if (magnitude > format.largest_code && !is_infinity) expected = format.nan;
    ASSERT_EQ(narrow(GetParam(), widen(GetParam(), code)), expected) << std::hex << code;
  }
}

// Between each number and the next: the middle, which is a tie, and the float32 values on both sides of it.
TEST_P(FloatFormats, RoundTiesToEven) {
  const ReferenceNarrowing reference(GetParam());
  const ReferenceFormat& format = reference.format();
  for (uint32_t code = 0; code <= format.largest_code; ++code) {
    const double low = referenceWiden(format, code);
    const double high = code < format.largest_code ? referenceWiden(format, code + 1)
                                                   : 2 * low - referenceWiden(format, code - 1);
    const float middle = static_cast<float>((low + high) / 2);
    for (float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
      ASSERT_EQ(narrow(GetParam(), value), reference(static_cast<double>(value))) << value;
      ASSERT_EQ(narrow(GetParam(), -value), reference(static_cast<double>(-value))) << -value;
    }
  }
}

TEST_P(FloatFormats, NarrowAnyFloatToItsNearestNumber) {
  const ReferenceNarrowing reference(GetParam());
  std::mt19937 random(7);
  for (int i = 0; i < 400000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(narrow(GetParam(), value), reference(static_cast<double>(value))) << value;
  }
}

TEST_P(FloatFormats, TreatTheEdgesAsDocumented) {
  const ReferenceFormat format = referenceFormat(GetParam());
  const uint32_t overflow = format.saturates ? format.largest_code : format.largest_code + 1;
  EXPECT_EQ(narrow(GetParam(), INFINITY), overflow);
  EXPECT_EQ(narrow(GetParam(), -INFINITY), overflow | format.signBit());
  EXPECT_EQ(narrow(GetParam(), 0.0f), 0u);
  EXPECT_EQ(narrow(GetParam(), -0.0f), format.signBit());
  EXPECT_EQ(narrow(GetParam(), 1e-45f), 0u);
  EXPECT_EQ(narrow(GetParam(), std::bit_cast<float>(0x7f800001u)), format.nan);
  EXPECT_EQ(narrow(GetParam(), std::bit_cast<float>(0xffffffffu)), format.nan);
}

INSTANTIATE_TEST_SUITE_P(EverySmallFormat, FloatFormats,
                         testing::Values(DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                                         DataType::kFloat8e5m2),
                         [](const auto& value) { return dataTypeName(value.param); });

TEST(Float8, OverflowsToInfinityIfItHasOne) {
  EXPECT_EQ(float8e4m3ToFloat(floatToFloat8e4m3(1e9f)), 448.0f);
  EXPECT_EQ(float8e5m2ToFloat(floatToFloat8e5m2(57344.0f)), 57344.0f);
  EXPECT_EQ(float8e5m2ToFloat(floatToFloat8e5m2(-61440.0f)), -INFINITY) << "the tie is even there";
}

}  // namespace
}  // namespace horing
