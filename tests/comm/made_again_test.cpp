// A communicator that is made again keeps the rates of its groups; children do not get them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/invitation.h"
#include "comm_ranks.h"
#include "transport/loopback/hub.h"

namespace horing {
namespace {

constexpr int kRankCount = 3;

TEST(MadeAgain, KeepsRatesThatChildrenDoNotGet) {
  const std::vector<double> given{100, 50, 50};
  const auto root = rootOfThisMachine(), root_of_child = rootOfThisMachine();
  const std::shared_ptr<LoopbackHub> hub = LoopbackHub::create(kRankCount).take();
  const auto ranks = makeRanks(kRankCount, *root, [&](CommunicatorOptions& options) {
    options.hub = hub;
    options.config.group = std::to_string(options.rank);
    options.rates = given;
  });
  ASSERT_FALSE(::testing::Test::HasFailure());
  for (int rank = 0; rank < kRankCount; ++rank) {
    const Communicator& made = *ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(made.choices().rates, given);
    const auto child = childOf(made, root_of_child->id(), rank, kRankCount);
    ASSERT_TRUE(child.ok()) << child.status().toString();
    EXPECT_TRUE(child.value().rates.empty()) << "its groups may be others";
  }
  for (const auto& rank : ranks) EXPECT_TRUE(rank->leave().ok());
}

}  // namespace
}  // namespace horing
