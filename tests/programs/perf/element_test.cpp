#include "perf/element.h"

#include <gtest/gtest.h>

#include <cmath>

namespace horing::perf {
namespace {

TEST(EncodeElement, GivesTheBitsOfTheFormats) {
  EXPECT_EQ(encodeElement(DataType::kFloat16, 1.0), 0x3c00u);
  EXPECT_EQ(encodeElement(DataType::kFloat16, -2.0), 0xc000u);
  EXPECT_EQ(encodeElement(DataType::kFloat16, 65504), 0x7bffu);
  EXPECT_EQ(encodeElement(DataType::kFloat16, std::ldexp(1.0, -24)), 0x0001u);
  EXPECT_EQ(encodeElement(DataType::kBfloat16, 1.0), 0x3f80u);
  EXPECT_EQ(encodeElement(DataType::kBfloat16, -3.0), 0xc040u);
  EXPECT_EQ(encodeElement(DataType::kFloat8e4m3, 1.0), 0x38u);
  EXPECT_EQ(encodeElement(DataType::kFloat8e4m3, 448), 0x7eu);
  EXPECT_EQ(encodeElement(DataType::kFloat8e5m2, 1.0), 0x3cu);
  EXPECT_EQ(encodeElement(DataType::kFloat8e5m2, 57344), 0x7bu);
  EXPECT_EQ(encodeElement(DataType::kInt8, -1), 0xffu);
}

TEST(EncodeElement, RoundsTiesToEven) {
  EXPECT_EQ(encodeElement(DataType::kFloat8e5m2, 9), encodeElement(DataType::kFloat8e5m2, 8));
  EXPECT_EQ(encodeElement(DataType::kFloat8e5m2, 11), encodeElement(DataType::kFloat8e5m2, 12));
  EXPECT_EQ(encodeElement(DataType::kFloat16, 2049), encodeElement(DataType::kFloat16, 2048));
  EXPECT_EQ(encodeElement(DataType::kFloat16, 2051), encodeElement(DataType::kFloat16, 2052));
}

TEST(DecodeElement, UndoesEncodeForEveryFiniteBitPattern) {
  const std::pair<DataType, uint64_t> cases[] = {{DataType::kFloat16, 0x7c00},
                                                 {DataType::kBfloat16, 0x7f80},
                                                 {DataType::kFloat8e4m3, 0x7f},
                                                 {DataType::kFloat8e5m2, 0x7c}};
  for (const auto& [type, first_special] : cases) {
    const uint64_t sign = uint64_t{1} << (dataTypeBytes(type) * 8 - 1);
    for (uint64_t bits = 0; bits < first_special; ++bits) {
      ASSERT_EQ(encodeElement(type, decodeElement(type, bits)), bits) << dataTypeName(type);
      ASSERT_EQ(encodeElement(type, decodeElement(type, bits | sign)), bits | sign) << dataTypeName(type);
    }
  }
}

TEST(ElementDistance, CountsRepresentableValuesAcrossZero) {
  EXPECT_EQ(elementDistance(DataType::kFloat32, encodeElement(DataType::kFloat32, 1.0),
                            encodeElement(DataType::kFloat32, std::nextafter(1.0f, 2.0f))),
            1u);
  EXPECT_EQ(elementDistance(DataType::kFloat16, 0x0000, 0x8000), 0u);
  EXPECT_EQ(elementDistance(DataType::kFloat16, 0x0001, 0x8001), 2u);
  EXPECT_EQ(elementDistance(DataType::kFloat64, 0x0000000000000002, 0x8000000000000003), 5u);
  EXPECT_EQ(elementDistance(DataType::kUint8, 3, 250), 247u);
}

TEST(ElementDistance, PutsNanFarFromEveryNumber) {
  EXPECT_EQ(elementDistance(DataType::kFloat16, 0x7e00, 0x7bff), UINT64_MAX);
  EXPECT_EQ(elementDistance(DataType::kFloat8e4m3, 0x7f, 0x7e), UINT64_MAX);
  EXPECT_EQ(elementDistance(DataType::kFloat8e4m3, 0x78, 0x79), 1u);  // 256 and 288: e4m3 has no infinity
}

}  // namespace
}  // namespace horing::perf
