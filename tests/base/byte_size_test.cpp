#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

TEST(ParseBytes, ReadsUnitsAndFractions) {
  const std::pair<const char*, uint64_t> cases[] = {{"0", 0},
                                                    {"8", 8},
                                                    {"4K", 4096},
                                                    {"4k", 4096},
                                                    {"1.5M", 1572864},
                                                    {"2G", 2147483648u},
                                                    {"0.5g", 536870912},
                                                    {".5K", 512},
                                                    {"64KiB", 65536},
                                                    {"1.5MiB", 1572864},
                                                    {"1GiB", 1u << 30},
                                                    {"1T", uint64_t{1} << 40},
                                                    {"100B", 100},
                                                    {"1e9", 1000000000},
                                                    {"10kB", 10000},
                                                    {"80GB", 80000000000u}};
  for (const auto& [text, bytes] : cases) {
    const Result<uint64_t> size = parseBytes(text);
    ASSERT_TRUE(size.ok()) << text << ": " << size.status().toString();
    EXPECT_EQ(size.value(), bytes) << text;
  }
}

TEST(ParseBytes, RefusesWhatIsNoSizeAndNamesIt) {
  for (const char* text : {"", "K", "-1", "1KB", "1 K", "1.2.3", ".", "0x10", "1e30", "1Q", "99999999999G",
                           "nan", "inf", "-0", "1 GiB ", "1kib", "eight"}) {
    const Result<uint64_t> size = parseBytes(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.status().message().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace horing
