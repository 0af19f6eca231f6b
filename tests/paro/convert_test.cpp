// horingParoConvert.
#include <cmath>
#include <cstdint>
#include <limits>

#include "job.h"

namespace {

uint16_t narrowed(double value, horingDataType_t type) {
  uint16_t bits = 0xdead;
  EXPECT_PARO(horingParoConvert(&value, horingFloat64, &bits, type, 1));
  return bits;
}
uint16_t narrowedFloat(float value, horingDataType_t type) {
  uint16_t bits = 0xdead;
  EXPECT_PARO(horingParoConvert(&value, horingFloat32, &bits, type, 1));
  return bits;
}
double widened(uint16_t bits, horingDataType_t type) {
  return asDouble(&bits, type, 0);
}

TEST(ParoConvert, EveryFiniteHalfSurvivesTheWayToFloatAndBack) {
  for (const horingDataType_t type : {horingFloat16, horingBfloat16}) {
    int same = 0;
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const double value = widened(static_cast<uint16_t>(bits), type);
      if (std::isnan(value)) continue;
      ASSERT_EQ(narrowed(value, type), bits) << value;
      ASSERT_EQ(narrowedFloat(static_cast<float>(value), type), bits) << value;
      ++same;
    }
    EXPECT_EQ(same, 65536 - (type == horingFloat16 ? 2 * 1023 : 2 * 127));
  }
}

TEST(ParoConvert, ReadsTheNumbersOfBothFormats) {
  EXPECT_EQ(widened(0x3c00, horingFloat16), 1);
  EXPECT_EQ(widened(0x7bff, horingFloat16), 65504);
  EXPECT_EQ(widened(0x0001, horingFloat16), std::ldexp(1, -24));
  EXPECT_EQ(widened(0x83ff, horingFloat16), -1023 * std::ldexp(1, -24));
  EXPECT_EQ(widened(0xfc00, horingFloat16), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(widened(0x7e01, horingFloat16)));
  EXPECT_EQ(widened(0xbf80, horingBfloat16), -1);
  EXPECT_TRUE(std::isnan(widened(0x7fc0, horingBfloat16)));
}

TEST(ParoConvert, RoundsToNearestAndTiesToEven) {
  // Between neighbours a tie goes to the even one; a little more or less goes where it is nearer.
  for (uint16_t bits = 1; bits < 0x7bff; bits = static_cast<uint16_t>(bits + 7)) {
    const double low = widened(bits, horingFloat16),
                 high = widened(static_cast<uint16_t>(bits + 1), horingFloat16);
    const double middle = (low + high) / 2;
    const auto even = static_cast<uint16_t>(bits + (bits & 1));
    ASSERT_EQ(narrowed(middle, horingFloat16), even);
    ASSERT_EQ(narrowed(-middle, horingFloat16), even | 0x8000);
    ASSERT_EQ(narrowed(std::nextafter(middle, 0), horingFloat16), bits);
    ASSERT_EQ(narrowed(std::nextafter(middle, high), horingFloat16), bits + 1);
    ASSERT_EQ(narrowedFloat(static_cast<float>(middle), horingFloat16), even);
  }
  for (uint16_t bits = 1; bits < 0x7f7f; bits = static_cast<uint16_t>(bits + 7)) {
    const double low = widened(bits, horingBfloat16),
                 high = widened(static_cast<uint16_t>(bits + 1), horingBfloat16);
    const double middle = (low + high) / 2;
    ASSERT_EQ(narrowed(middle, horingBfloat16), bits + (bits & 1));
    ASSERT_EQ(narrowed(std::nextafter(middle, 0), horingBfloat16), bits);
    ASSERT_EQ(narrowed(std::nextafter(middle, high), horingBfloat16), bits + 1);
  }
}

TEST(ParoConvert, MakesInfinityOfWhatIsTooLargeAndKeepsNan) {
  EXPECT_EQ(narrowed(65519, horingFloat16), 0x7bff);
  EXPECT_EQ(narrowed(65520, horingFloat16), 0x7c00);
  EXPECT_EQ(narrowed(-1e300, horingFloat16), 0xfc00);
  EXPECT_EQ(narrowed(1e300, horingBfloat16), 0x7f80);
  EXPECT_TRUE(std::isnan(widened(narrowed(std::nan(""), horingFloat16), horingFloat16)));
  EXPECT_TRUE(std::isnan(widened(narrowed(std::nan(""), horingBfloat16), horingBfloat16)));
}

TEST(ParoConvert, RefusesOtherTypes) {
  float value = 0;
  EXPECT_TRUE(paroRefuses(horingParoConvert(&value, horingFloat32, &value, horingInt32, 1),
                          horingInvalidArgument, "type is 2"));
  EXPECT_TRUE(paroRefuses(horingParoConvert(nullptr, horingFloat32, &value, horingFloat16, 1),
                          horingInvalidArgument, "from is NULL"));
  EXPECT_PARO(horingParoConvert(nullptr, horingFloat32, nullptr, horingFloat16, 0));
}

}  // namespace
