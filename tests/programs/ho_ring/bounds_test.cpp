#include "ho_ring/bounds.h"

#include <gtest/gtest.h>

namespace horing::bench {
namespace {

TEST(TheoreticalSpeedup, IsThatOfThePaper) {
  EXPECT_DOUBLE_EQ(theoreticalSpeedup({2, 16}), 1.875);
  EXPECT_DOUBLE_EQ(theoreticalSpeedup({4, 16}), 1.25);
  EXPECT_DOUBLE_EQ(theoreticalSpeedup({2, 8}), 1.75);
  EXPECT_NEAR(theoreticalSpeedup({4, 8}), 1.167, 0.001);
  EXPECT_DOUBLE_EQ(theoreticalSpeedup({1, 8}), 1);
}

TEST(WireBytes, AreTwiceAsManyForAllReduce) {
  EXPECT_DOUBLE_EQ(wireBytes(Collective::kAllGather, {4, 16}, 1600), 1200);
  EXPECT_DOUBLE_EQ(wireBytes(Collective::kReduceScatter, {4, 16}, 1600), 1200);
  EXPECT_DOUBLE_EQ(wireBytes(Collective::kAllReduce, {4, 16}, 1600), 2400);
  EXPECT_DOUBLE_EQ(ringWireBytes(Collective::kAllGather, {4, 16}, 1600), 1500);
  EXPECT_DOUBLE_EQ(ringWireBytes(Collective::kAllReduce, {4, 16}, 1600), 3000);
  EXPECT_DOUBLE_EQ(wireBytes(Collective::kAllReduce, {1, 16}, 1600), 0);
  EXPECT_DOUBLE_EQ(ringWireBytes(Collective::kAllReduce, {1, 16}, 1600), 0);
}

TEST(WireBytes, OfTwoRingsDifferByTheSpeedup) {
  for (const JobShape shape : {JobShape{2, 16}, JobShape{4, 16}, JobShape{3, 9}, JobShape{5, 5}})
    EXPECT_DOUBLE_EQ(ringWireBytes(Collective::kAllReduce, shape, 1 << 20) /
                         wireBytes(Collective::kAllReduce, shape, 1 << 20),
                     theoreticalSpeedup(shape));
}

TEST(WireTime, IsThatOfTheIssue) {
  // 64 MiB, 2 nodes at 1000 Mbit/s: half of it crosses, 268 ms.
  EXPECT_NEAR(wireTimeMs(wireBytes(Collective::kAllGather, {2, 8}, 64u << 20), 1000), 268.4, 0.1);
  EXPECT_DOUBLE_EQ(wireTimeMs(1e6, 0), 0);
}

}  // namespace
}  // namespace horing::bench
