// Children of a communicator that follows rates of groups.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "../../temporary_folder.h"
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

class SilentObserver final : public CallObserver {
 public:
  Status ended(size_t, int64_t) override { return {}; }
};

Child madeAgain(Communicator& parent, const OpenRendezvous& open) {
  HORING_ASSIGN(auto child, split(parent, {.color = 0, .replaces_parent = true}, open));
  return std::move(*child);
}

class InheritedRates : public testing::Test {
 protected:
  // What the children follow: `make` makes a child of a rank's communicator, which follows the rates.
  std::vector<Choices> childrenOf(const std::function<std::vector<double>(int)>& rates_of_rank,
                                  const std::function<Child(Communicator&, const OpenRendezvous&)>& make,
                                  int left_out = -1) {
    const std::unique_ptr<RootService> root = rootOfThisMachine(), child_root = rootOfThisMachine();
    const auto ranks = makeRanks(kRanks, *root, [&](CommunicatorOptions& options) {
      options.config.group = std::to_string(kGroupOfRank[options.rank]);
      options.config.cache_dir = cache_dir_;
    });
    std::vector<Choices> found(kRanks);
    onEveryRank(kRanks, [&](int rank) {
      if (rank == left_out) return;
      Communicator& parent = *ranks[static_cast<size_t>(rank)];
      Choices choices = parent.choices();
      choices.rates = rates_of_rank(rank);
      choices.machine = machine_;
      parent.choose(std::move(choices));
      if (parent_follows_) parent.observeCalls(std::make_unique<SilentObserver>());
      Child options =
          make(parent, [&](const CommunicatorOptions&) -> Result<UniqueId> { return child_root->id(); });
      ASSERT_TRUE(options.ok()) << options.status().toString();
      auto child = createTuned(options.take());
      ASSERT_TRUE(child.ok()) << child.status().toString();
      found[static_cast<size_t>(rank)] = child.value()->choices();
      follows_[rank] = child.value()->isObserved();
      shapes_[rank] = child.value()->selector()->select(Collective::kAllReduce, 16 << 20).shape;
      EXPECT_TRUE(child.value()->leave().ok());
    });
    return found;
  }

  bool parent_follows_ = true;
  std::optional<MachineModel> machine_;  // the parent's
  std::string cache_dir_ = "off";
  bool follows_[kRanks] = {};
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
    EXPECT_TRUE(follows_[rank]) << "as its parent does";
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
  for (const bool follows : follows_) EXPECT_FALSE(follows) << "its parent measures already";
}

// As horingCommSuspend and horingCommResume do it.
TEST_F(InheritedRates, AreThoseOfACommunicatorThatIsMadeAgain) {
  const auto found = childrenOf([](int) { return kThirdIsSlow; }, madeAgain);
  for (const Choices& choices : found) EXPECT_EQ(choices.rates, kThirdIsSlow);
  for (const bool follows : follows_) EXPECT_TRUE(follows) << "as its parent does";
}

TEST_F(InheritedRates, StayWhereTheParentFollowsNoChanges) {
  parent_follows_ = false;
  childrenOf([](int) { return kThirdIsSlow; }, madeAgain);
  for (const bool follows : follows_) EXPECT_FALSE(follows);
  constexpr int kLost = 0;
  childrenOf([](int) { return kThirdIsSlow; },
             [](Communicator& parent, const OpenRendezvous& open) { return shrink(parent, {kLost}, open); },
             kLost);
  for (int rank = kLost + 1; rank < kRanks; ++rank) EXPECT_FALSE(follows_[rank]);
}

// A child chooses by the machine that its parent measured, and keeps that for later jobs.
TEST_F(InheritedRates, ThatDifferKeepMeasurementsFromLaterJobs) {
  const test::TemporaryFolder folder;
  machine_ = MachineModel();
  cache_dir_ = folder.path();
  childrenOf([](int) { return kThirdIsSlow; }, madeAgain);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  childrenOf([](int) { return std::vector<double>{100, 100, 100}; }, madeAgain);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path())) << "equal links are those of other jobs, too";
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
