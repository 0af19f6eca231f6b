// Children of a communicator that follows rates of groups.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "../comm_ranks.h"
#include "comm/shrink.h"
#include "comm/split.h"
#include "comm/tuning/group_rates.h"
#include "comm/tuning/tuning.h"
#include "selection/selection.h"

namespace horing {
namespace {

constexpr int kGroupOfRank[] = {0, 0, 0, 1, 1, 2, 2};
constexpr int kRanks = std::size(kGroupOfRank);
const std::vector<double> kThirdIsSlow{100, 100, 40};

using Child = Result<CommunicatorOptions>;

class InheritedRates : public testing::Test {
 protected:
  // What the children follow: `make` makes a child of a rank's communicator, which follows the rates.
  std::vector<Choices> childrenOf(const std::function<std::vector<double>(int)>& rates_of_rank,
                                  const std::function<Child(Communicator&, const OpenRendezvous&)>& make,
                                  int left_out = -1) {
    const auto ranks = makeRanks(kRanks, *root_, [](CommunicatorOptions& options) {
      options.config.group = std::to_string(kGroupOfRank[options.rank]);
    });
    std::vector<Choices> found(kRanks);
    onEveryRank(kRanks, [&](int rank) {
      if (rank == left_out) return;
      Communicator& parent = *ranks[static_cast<size_t>(rank)];
      Choices choices = parent.choices();
      choices.rates = rates_of_rank(rank);
      parent.choose(std::move(choices));
      Child options =
          make(parent, [&](const CommunicatorOptions&) -> Result<UniqueId> { return child_root_->id(); });
      ASSERT_TRUE(options.ok()) << options.status().toString();
      auto child = createTuned(options.take());
      ASSERT_TRUE(child.ok()) << child.status().toString();
      found[static_cast<size_t>(rank)] = child.value()->choices();
      shapes_[rank] = child.value()->selector()->select(Collective::kAllReduce, 16 << 20).shape;
      EXPECT_TRUE(child.value()->leave().ok());
    });
    return found;
  }

  std::unique_ptr<RootService> root_ = rootOfThisMachine(), child_root_ = rootOfThisMachine();
  Shape shapes_[kRanks];  // of the children's large all-reduces
};

TEST_F(InheritedRates, AreThoseOfAShrunkJob) {
  constexpr int kLost = 1;
  const auto found = childrenOf(
      [](int) { return kThirdIsSlow; },
      [](Communicator& parent, const OpenRendezvous& open) { return shrink(parent, {kLost}, open); }, kLost);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kLost) continue;
    EXPECT_EQ(found[static_cast<size_t>(rank)].rates, kThirdIsSlow);
    const Shape& shape = shapes_[rank];
    EXPECT_EQ(shape.groups, 3);
    EXPECT_EQ(shape.ranks(), kRanks - 1);
    ASSERT_TRUE(shape.shares);
    EXPECT_EQ(shape.shares.parts()[2], 0) << "the slow group reduces nothing";
  }
}

// In the order of their keys: the slow group comes first.
TEST_F(InheritedRates, BelongToTheGroupsOfAChild) {
  const auto found = childrenOf([](int) { return kThirdIsSlow; },
                                [](Communicator& parent, const OpenRendezvous& open) -> Child {
                                  const SplitChoice choice{.color = 0, .key = -parent.membership().rank()};
                                  HORING_ASSIGN(auto child, split(parent, choice, open));
                                  return std::move(*child);
                                });
  for (const Choices& choices : found) EXPECT_EQ(choices.rates, (std::vector<double>{40, 100, 100}));
}

// A rank was lost while rates changed.
TEST_F(InheritedRates, AreNoneWhereRanksOfAGroupKnowDifferentOnes) {
  const auto found = childrenOf(
      [](int rank) {
        return rank == 3 ? std::vector<double>{100, 70, 40} : kThirdIsSlow;
      },
      [](Communicator& parent, const OpenRendezvous& open) { return shrink(parent, {0}, open); }, 0);
  for (const Choices& choices : found) EXPECT_TRUE(choices.rates.empty());
}

TEST_F(InheritedRates, AreNoneWhereTheParentHasNone) {
  const auto found = childrenOf(
      [](int) { return std::vector<double>(); },
      [](Communicator& parent, const OpenRendezvous& open) { return shrink(parent, {0}, open); }, 0);
  for (const Choices& choices : found) EXPECT_TRUE(choices.rates.empty());
}

}  // namespace
}  // namespace horing
