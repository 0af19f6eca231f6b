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

TEST(CountsFor, SplitsOnlyBlockCollectivesAmongRanks) {
  const Counts all_reduce = countsFor(Collective::kAllReduce, DataType::kFloat32, 3, 1000);
  EXPECT_EQ(all_reduce.argument, 250u);
  EXPECT_EQ(all_reduce.bytes, 1000u);
  const Counts gather = countsFor(Collective::kAllGather, DataType::kFloat32, 3, 1000);
  EXPECT_EQ(gather.argument, 80u);  // 83 elements fit, a block is a multiple of 16 bytes
  EXPECT_EQ(gather.send, 80u);
  EXPECT_EQ(gather.receive, 240u);
  EXPECT_EQ(gather.bytes, 960u);
  const Counts scatter = countsFor(Collective::kReduceScatter, DataType::kFloat64, 3, 1000);
  EXPECT_EQ(scatter.argument, 40u);
  EXPECT_EQ(scatter.send, 120u);
  EXPECT_EQ(scatter.receive, 40u);
  EXPECT_EQ(countsFor(Collective::kAllGather, DataType::kInt8, 4, 8).bytes, 0u);
}

TEST(BusFactor, IsTheShareOfEachByteThatALinkCarries) {
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kReduceScatter, 8), 0.875);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(busFactor(Collective::kAllReduce, 1), 0);
}

}  // namespace
}  // namespace horing::perf
