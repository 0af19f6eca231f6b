// What ranks tell each other to make a communicator from another one, and to make one at all.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/grow.h"
#include "comm/invitation.h"
#include "comm/shrink.h"
#include "comm/split.h"
#include "comm_ranks.h"

namespace horing {
namespace {

constexpr int kParentRanks = 3;

bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

class Offspring : public ::testing::Test {
 protected:
  void SetUp() override {
    ranks_ = makeRanks(kParentRanks, *root_, [](CommunicatorOptions&) {});
    ASSERT_FALSE(HasFailure());
  }
  Communicator& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // Opens no rendezvous, but tells the ID of one.
  Result<UniqueId> open() const { return child_root_->id(); }

  std::unique_ptr<RootService> root_ = rootOfThisMachine(), child_root_ = rootOfThisMachine();
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_F(Offspring, RanksOfAColorGetTheIdOfTheirHost) {
  onEveryRank(kParentRanks, [&](int rank) {
    const SplitChoice choice{.color = rank == 1 ? kNoColor : 7, .key = -rank};
    const auto child = split(at(rank), choice, [&](const CommunicatorOptions&) { return open(); });
    ASSERT_TRUE(child.ok()) << child.status().toString();
    ASSERT_EQ(child.value().has_value(), rank != 1);
    if (rank == 1) return;
    EXPECT_EQ(child.value()->id, child_root_->id());
    EXPECT_EQ(child.value()->rank, rank == 0 ? 1 : 0) << "by key";
    EXPECT_EQ(child.value()->ranks, 2);
  });
}

TEST_F(Offspring, HearWhyTheirHostHasNoRendezvous) {
  onEveryRank(kParentRanks, [&](int rank) {
    const auto child = split(at(rank), {.color = 0}, [&](const CommunicatorOptions&) -> Result<UniqueId> {
      return makeStatus(Code::kSystemError, "made up");
    });
    EXPECT_EQ(child.status().code(), Code::kRemoteError);
    EXPECT_TRUE(mentions(child.status(), "rank 0 could not host")) << child.status().toString();
    EXPECT_TRUE(mentions(child.status(), "made up")) << child.status().toString();
  });
}

TEST_F(Offspring, OfAShrinkGetTheIdOfTheLowestRank) {
  onEveryRank(kParentRanks, [&](int rank) {
    if (rank == 1) return;
    const auto child = shrink(at(rank), {1}, [&](const CommunicatorOptions&) { return open(); });
    ASSERT_TRUE(child.ok()) << child.status().toString();
    EXPECT_EQ(child.value().id, child_root_->id());
    EXPECT_EQ(child.value().rank, rank == 0 ? 0 : 1);
  });
}

TEST_F(Offspring, OfAGrowthAgreeOnOneId) {
  onEveryRank(kParentRanks, [&](int rank) {
    const std::optional<UniqueId> id = rank == 2 ? std::optional(child_root_->id()) : std::nullopt;
    const auto larger = grow(at(rank), {.ranks = 5, .id = id});
    ASSERT_TRUE(larger.ok()) << larger.status().toString();
    EXPECT_EQ(larger.value().id, child_root_->id());
    EXPECT_EQ(larger.value().ranks, 5);
  });
  onEveryRank(kParentRanks, [&](int rank) {
    const UniqueId id = rank == 2 ? child_root_->id() : root_->id();
    const auto larger = grow(at(rank), {.ranks = 5, .id = id});
    EXPECT_TRUE(mentions(larger.status(), "rank 2 was given another ID")) << larger.status().toString();
  });
  onEveryRank(kParentRanks, [&](int rank) {
    const auto larger = grow(at(rank), {.ranks = 5, .id = child_root_->id(), .is_used_up = rank == 1});
    EXPECT_TRUE(mentions(larger.status(), "the ID that rank 1 was given was used already"))
        << larger.status().toString();
  });
}

TEST(Invitation, IsRefusedWhereItIsMalformed) {
  const auto root = rootOfThisMachine();
  const std::vector<std::byte> whole = encodeInvitation(root->id());
  EXPECT_EQ(decodeInvitation(whole, 3).value(), root->id());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Status status = decodeInvitation(std::span(whole).first(bytes), 3).status();
    EXPECT_EQ(status.code(), Code::kRemoteError) << bytes;
    EXPECT_TRUE(mentions(status, "the message of rank 3")) << status.toString();
  }
}

TEST(Ranks, AskForTheSameNumberOfSignals) {
  const auto root = rootOfThisMachine();
  onEveryRank(2, [&](int rank) {
    CommunicatorOptions options;
    options.config = Config::fromLookup([](const char*) { return nullptr; }).take();
    options.id = root->id();
    options.rank = rank;
    options.ranks = 2;
    options.signals = rank == 0 ? 3 : 2;
    const Status status = Communicator::create(std::move(options)).status();
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_TRUE(mentions(status, "rank 0 has config.numRmaSig=3")) << status.toString();
    EXPECT_TRUE(mentions(status, "rank 1 has config.numRmaSig=2")) << status.toString();
  });
}

}  // namespace
}  // namespace horing
