#include "perf/sizes.h"

#include <gtest/gtest.h>

namespace horing::perf {
namespace {

TEST(ParseSize, ReadsBinarySuffixesAndFractions) {
  const std::pair<const char*, uint64_t> cases[] = {{"0", 0},
                                                    {"8", 8},
                                                    {"4K", 4096},
                                                    {"4k", 4096},
                                                    {"1.5M", 1572864},
                                                    {"2G", 2147483648u},
                                                    {"0.5g", 536870912},
                                                    {".5K", 512}};
  for (const auto& [text, bytes] : cases) {
    const Result<uint64_t> size = parseSize(text);
    ASSERT_TRUE(size.ok()) << text << ": " << size.status().toString();
    EXPECT_EQ(size.value(), bytes) << text;
  }
}

TEST(ParseSize, RefusesWhatIsNoSizeAndNamesIt) {
  for (const char* text :
       {"", "K", "-1", "1KB", "1 K", "1.2.3", ".", "0x10", "1T", "99999999999G", "eight"}) {
    const Result<uint64_t> size = parseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.status().message().find("'" + std::string(text) + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace horing::perf
