#include "base/number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "../comma_locale.h"
#include "base/byte_size.h"
#include "base/status.h"

namespace horing {
namespace {

TEST(Number, IsAllOfTheText) {
  EXPECT_EQ(numberOf<double>("1.5"), 1.5);
  EXPECT_EQ(numberOf<double>("2e3"), 2000.0);
  EXPECT_EQ(numberOf<int64_t>("-7"), -7);
  for (const char* text : {"", " 1", "1 ", "1,5", "1.5x", "x", "0x10", "1e999"})
    EXPECT_EQ(numberOf<double>(text), std::nullopt) << text;
  EXPECT_EQ(numberOf<uint8_t>("256"), std::nullopt);
}

TEST(Number, IsTakenOffItsUnit) {
  std::string_view text = "16.0 GT/s";
  EXPECT_EQ(takeNumber<double>(text), 16.0);
  EXPECT_EQ(text, " GT/s");
  EXPECT_EQ(takeNumber<double>(text), std::nullopt);
  EXPECT_EQ(text, " GT/s");
}

TEST(Number, IsTheSameUnderEveryLocale) {
  const test::CommaLocale locale;
  HORING_NEEDS_COMMA_LOCALE(locale);
  locale.set();
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", 0.5);
  ASSERT_STREQ(text, "0,5") << "the locale is not in force";
  EXPECT_EQ(numberOf<double>("0.5"), 0.5);
  EXPECT_EQ(formatString("%.1f", 0.5), "0.5");
  EXPECT_EQ(makeStatus(Code::kTimeout, "%g s", 0.5).message(), "0.5 s");
  EXPECT_EQ(parseBytes("1.5K").value(), 1536u);
  std::snprintf(text, sizeof text, "%.1f", 0.5);
  EXPECT_STREQ(text, "0,5") << "the caller's locale was changed";
}

}  // namespace
}  // namespace horing
