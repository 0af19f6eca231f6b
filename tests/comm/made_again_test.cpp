// A communicator that is made again keeps the shares of its groups; children do not get them.
#include <gtest/gtest.h>

#include "comm/invitation.h"
#include "comm_ranks.h"
#include "transport/loopback/hub.h"

namespace horing {
namespace {

constexpr int kRankCount = 3;

TEST(MadeAgain, KeepsSharesThatChildrenDoNotGet) {
  const Shares given({Shares::kWhole / 2, Shares::kWhole / 4, Shares::kWhole / 4});
  const auto root = rootOfThisMachine(), root_of_child = rootOfThisMachine();
  const std::shared_ptr<LoopbackHub> hub = LoopbackHub::create(kRankCount).take();
  const auto ranks = makeRanks(kRankCount, *root, [&](CommunicatorOptions& options) {
    options.hub = hub;
    options.shares = given;
  });
  ASSERT_FALSE(::testing::Test::HasFailure());
  for (int rank = 0; rank < kRankCount; ++rank) {
    const Communicator& made = *ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(made.choices().shares, given);
    const auto child = childOf(made, root_of_child->id(), rank, kRankCount);
    ASSERT_TRUE(child.ok()) << child.status().toString();
    EXPECT_FALSE(child.value().shares) << "its groups may be others";
  }
  for (const auto& rank : ranks) EXPECT_TRUE(rank->leave().ok());
}

}  // namespace
}  // namespace horing
