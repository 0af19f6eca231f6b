// Communicators made out of others.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "ranks.h"

namespace {

// What rank `rank` gets when all ranks of comm give `mine`, in the order of ranks.
std::vector<int> gathered(horingComm_t comm, int mine) {
  int ranks = 0;
  EXPECT_HORING(horingCommCount(comm, &ranks));
  std::vector<int> all(static_cast<size_t>(ranks), -1);
  EXPECT_HORING(horingAllGather(&mine, all.data(), 1, horingInt, comm, nullptr));
  return all;
}

class Split : public testing::TestWithParam<Meeting> {
 protected:
  static constexpr int kRanks = 6;
  void SetUp() override { comms_ = makeCommunicators(kRanks, GetParam()); }
  void TearDown() override {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  std::vector<horingComm_t> comms_;
};

TEST_P(Split, RanksOfAColorMeetInTheOrderOfTheirKeys) {
  onEveryRank(kRanks, [&](int rank) {
    horingComm_t child = nullptr;
    // Even ranks backwards, odd ones as they are, all with the same key.
    const int color = rank % 2;
    ASSERT_HORING(horingCommSplit(comm(rank), color, color ? 7 : -rank, &child, nullptr));
    EXPECT_EQ(gathered(child, rank), color ? (std::vector<int>{1, 3, 5}) : (std::vector<int>{4, 2, 0}));
    EXPECT_HORING(horingCommDestroy(child));
  });
}

TEST_P(Split, RanksWithoutAColorGetNothing) {
  onEveryRank(kRanks, [&](int rank) {
    auto child = reinterpret_cast<horingComm_t>(&comms_);
    const int color = rank == 3 ? 5 : HORING_SPLIT_NOCOLOR;
    ASSERT_HORING(horingCommSplit(comm(rank), color, 0, &child, nullptr));
    EXPECT_EQ(child == nullptr, rank != 3);
    if (!child) return;
    EXPECT_EQ(gathered(child, rank), std::vector<int>{3});
    EXPECT_HORING(horingCommDestroy(child));
  });
}

TEST_P(Split, ParentAndChildrenRunInterleavedAndEndInAnyOrder) {
  onEveryRank(kRanks, [&](int rank) {
    horingComm_t half = nullptr, pair = nullptr;
    ASSERT_HORING(horingCommSplit(comm(rank), rank / 3, 0, &half, nullptr));
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(gathered(comm(rank), rank), (std::vector<int>{0, 1, 2, 3, 4, 5}));
      if (round == 1) {
        ASSERT_HORING(horingCommSplit(comm(rank), rank % 3, 0, &pair, nullptr));
      }
      const int first = rank / 3 * 3;
      EXPECT_EQ(gathered(half, rank), (std::vector<int>{first, first + 1, first + 2}));
      if (pair) {
        EXPECT_EQ(gathered(pair, rank), (std::vector<int>{rank % 3, rank % 3 + 3}));
      }
    }
    // A child of a child; its parent goes first.
    horingComm_t alone = nullptr;
    ASSERT_HORING(horingCommSplit(half, rank, 0, &alone, nullptr));
    EXPECT_HORING(horingCommDestroy(half));
    EXPECT_EQ(gathered(alone, rank), std::vector<int>{rank});
    EXPECT_HORING(horingCommDestroy(alone));
    EXPECT_HORING(horingCommDestroy(pair));
  });
}

TEST_P(Split, OneThreadSplitsAllRanksInAGroup) {
  std::vector<horingComm_t> halves(kRanks), pairs(kRanks);
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto at = static_cast<size_t>(rank);
    ASSERT_HORING(horingCommSplit(comm(rank), rank / 3, 0, &halves[at], nullptr));
    ASSERT_HORING(horingCommSplit(comm(rank), rank % 3, 0, &pairs[at], nullptr));
    EXPECT_EQ(halves[at], nullptr) << "before the end of the group";
  }
  ASSERT_HORING(horingGroupEnd());
  onEveryRank(kRanks, [&](int rank) {
    const int first = rank / 3 * 3;
    EXPECT_EQ(gathered(halves[static_cast<size_t>(rank)], rank),
              (std::vector<int>{first, first + 1, first + 2}));
    EXPECT_EQ(gathered(pairs[static_cast<size_t>(rank)], rank), (std::vector<int>{rank % 3, rank % 3 + 3}));
  });
  for (const auto& children : {halves, pairs})
    for (const horingComm_t child : children) EXPECT_HORING(horingCommDestroy(child));
}

TEST_P(Split, ComesAfterWhatIsOnTheStreams) {
  onEveryRank(kRanks, [&](int rank) {
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    std::vector<double> x(100'000, rank);
    ASSERT_HORING(horingAllReduce(x.data(), x.data(), x.size(), horingDouble, horingSum, comm(rank), stream));
    horingComm_t child = nullptr;
    ASSERT_HORING(horingCommSplit(comm(rank), 0, 0, &child, nullptr));
    EXPECT_EQ(x.back(), 15.0);
    EXPECT_HORING(horingStreamSynchronize(stream));
    EXPECT_HORING(horingCommDestroy(child));
    EXPECT_HORING(horingStreamDestroy(stream));
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, Split, testing::Values(Meeting::kInitRank, Meeting::kInitAll),
                         [](const auto& way) { return way.param == Meeting::kInitRank ? "ById" : "All"; });

TEST(SplitArguments, AreRefusedBeforeAnybodyWaits) {
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  horingComm_t child = nullptr;
  EXPECT_TRUE(
      refuses(horingCommSplit(nullptr, 0, 0, &child, nullptr), horingInvalidArgument, "comm is NULL"));
  EXPECT_TRUE(refuses(horingCommSplit(comms[0], 0, 0, nullptr, nullptr), horingInvalidArgument, "newcomm"));
  EXPECT_TRUE(
      refuses(horingCommSplit(comms[0], -2, 0, &child, nullptr), horingInvalidArgument, "color is -2"));
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_TRUE(refuses(horingCommSplit(comms[0], 0, 0, &child, &config), horingInvalidArgument, "magic 0x0"));
  ASSERT_HORING(horingGroupStart());
  EXPECT_TRUE(
      refuses(horingCommSplit(comms[0], -2, 0, &child, nullptr), horingInvalidArgument, "color is -2"));
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidArgument, "color is -2"));
  horingResult_t sticky = horingInternalError;
  EXPECT_HORING(horingCommGetAsyncError(comms[0], &sticky));
  EXPECT_EQ(sticky, horingSuccess);
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

TEST(SplitTrouble, ARankThatDoesNotSplitIsNamedAtTheDeadline) {
  Setting soon("HORING_INIT_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    horingComm_t child = nullptr;
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_TRUE(refuses(horingCommSplit(comm, 0, 0, &child, nullptr), horingTimeout,
                        "rank 2 of 3 did not take part in horingCommSplit"));
    EXPECT_EQ(child, nullptr);
    EXPECT_TRUE(refuses(horingCommSplit(comm, 0, 0, &child, nullptr), horingTimeout, "rank 2"));
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(SplitTrouble, ALostRankIsNamed) {
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  std::thread late([&] { EXPECT_HORING(horingCommAbort(comms[2])); });
  onEveryRank(2, [&](int rank) {
    horingComm_t child = nullptr;
    EXPECT_TRUE(refuses(horingCommSplit(comms[static_cast<size_t>(rank)], 0, 0, &child, nullptr),
                        horingRemoteError, "rank 2"));
  });
  late.join();
  for (const int rank : {0, 1}) EXPECT_HORING(horingCommDestroy(comms[static_cast<size_t>(rank)]));
}

TEST(SplitTrouble, AChildThatFailsLeavesItsParentAndSiblingsAlone) {
  const std::vector<horingComm_t> comms = makeCommunicators(4, Meeting::kInitRank);
  onEveryRank(4, [&](int rank) {
    horingComm_t child = nullptr;
    ASSERT_HORING(horingCommSplit(comms[static_cast<size_t>(rank)], rank / 2, 0, &child, nullptr));
    if (rank == 0) {
      EXPECT_HORING(horingCommAbort(child));
    } else if (rank == 1) {
      int x = 1;
      EXPECT_EQ(horingAllReduce(&x, &x, 1, horingInt, horingSum, child, nullptr), horingRemoteError);
      EXPECT_HORING(horingCommDestroy(child));
    } else {
      EXPECT_EQ(gathered(child, rank), (std::vector<int>{2, 3}));
      EXPECT_HORING(horingCommDestroy(child));
    }
    EXPECT_EQ(gathered(comms[static_cast<size_t>(rank)], rank), (std::vector<int>{0, 1, 2, 3}));
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Shrinks comm to the ranks that are not in `excluded`.
horingResult_t shrink(horingComm_t comm, std::vector<int> excluded, horingComm_t* child,
                      int flags = HORING_SHRINK_DEFAULT) {
  return horingCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), child, nullptr, flags);
}

// The survivors of six ranks shrink twice; `excluded` first.
void shrinkAndShrinkAgain(const std::vector<horingComm_t>& comms, std::vector<int> excluded, int flags) {
  std::vector<int> rest;
  for (int rank = 0; rank < 6; ++rank)
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) rest.push_back(rank);
  std::atomic<int> have_gathered{0};
  onEveryRank(static_cast<int>(rest.size()), [&](int at) {
    const int rank = rest[static_cast<size_t>(at)];
    horingComm_t child = nullptr, grandchild = nullptr;
    ASSERT_HORING(shrink(comms[static_cast<size_t>(rank)], excluded, &child, flags));
    EXPECT_EQ(gathered(child, rank), rest);
    ++have_gathered;
    if (at == 0) {
      // Not while the other ranks are still in the exchange.
      for (int i = 0; i < 10'000 && have_gathered < static_cast<int>(rest.size()); ++i) usleep(1000);
      EXPECT_HORING(horingCommAbort(child));
      return;
    }
    int x = 1;
    EXPECT_EQ(horingAllReduce(&x, &x, 1, horingInt, horingSum, child, nullptr), horingRemoteError);
    ASSERT_HORING(shrink(child, {0}, &grandchild, HORING_SHRINK_ABORT));
    EXPECT_EQ(gathered(grandchild, rank), (std::vector<int>{rest.begin() + 1, rest.end()}));
    EXPECT_HORING(horingCommDestroy(child));
    EXPECT_HORING(horingCommDestroy(grandchild));
  });
}

TEST_P(Split, ShrinksToThoseThatStay) {
  shrinkAndShrinkAgain(comms_, {4, 2}, HORING_SHRINK_DEFAULT);
  onEveryRank(kRanks, [&](int rank) {
    EXPECT_EQ(gathered(comm(rank), rank), (std::vector<int>{0, 1, 2, 3, 4, 5}))
        << "the parent stays as it is";
  });
}

TEST_P(Split, ShrinksWhenTheLowestRankHasAborted) {
  EXPECT_HORING(horingCommAbort(comms_[0]));
  shrinkAndShrinkAgain(comms_, {0}, HORING_SHRINK_DEFAULT);
  comms_.erase(comms_.begin());
}

TEST_P(Split, AbortEndsWhatRunsOnTheParent) {
  onEveryRank(kRanks - 1, [&](int rank) {
    horingStream_t stream = nullptr;
    ASSERT_HORING(horingStreamCreate(&stream));
    int x = 1;
    // Waits for rank 5, which never comes.
    ASSERT_HORING(horingAllReduce(&x, &x, 1, horingInt, horingSum, comm(rank), stream));
    horingComm_t child = nullptr;
    ASSERT_HORING(shrink(comm(rank), {5}, &child, HORING_SHRINK_ABORT));
    EXPECT_NE(horingStreamSynchronize(stream), horingSuccess);
    EXPECT_NE(horingAllReduce(&x, &x, 1, horingInt, horingSum, comm(rank), nullptr), horingSuccess);
    EXPECT_EQ(gathered(child, rank), (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_HORING(horingCommDestroy(child));
    EXPECT_HORING(horingStreamDestroy(stream));
  });
}

// Operations queued on the parent behind another communicator's operation, which waits for a rank that never calls.
TEST(ShrinkTrouble, AbortDoesNotWaitForTurnsOnAStream) {
  const std::vector<horingComm_t> stuck = makeCommunicators(2, Meeting::kInitRank);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  horingStream_t stream = nullptr;
  ASSERT_HORING(horingStreamCreate(&stream));
  int x = 1, y = 1;
  ASSERT_HORING(horingAllReduce(&x, &x, 1, horingInt, horingSum, stuck[0], stream));
  ASSERT_HORING(horingAllReduce(&y, &y, 1, horingInt, horingSum, comms[0], stream));
  horingComm_t child = nullptr;
  ASSERT_HORING(shrink(comms[0], {1}, &child, HORING_SHRINK_ABORT));
  EXPECT_EQ(horingStreamQuery(stream), horingInProgress) << "the other communicator is as it was";
  EXPECT_EQ(gathered(child, 4), std::vector<int>{4});
  EXPECT_HORING(horingCommDestroy(child));
  EXPECT_HORING(horingCommAbort(stuck[0]));
  EXPECT_NE(horingStreamDestroy(stream), horingSuccess);
  EXPECT_HORING(horingCommAbort(stuck[1]));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST_P(Split, OneThreadShrinksAllRanksInAGroup) {
  std::vector<horingComm_t> children(kRanks - 1);
  ASSERT_HORING(horingGroupStart());
  for (size_t rank = 0; rank < children.size(); ++rank)
    ASSERT_HORING(shrink(comms_[rank], {kRanks - 1}, &children[rank]));
  ASSERT_HORING(horingGroupEnd());
  onEveryRank(kRanks - 1, [&](int rank) {
    EXPECT_EQ(gathered(children[static_cast<size_t>(rank)], rank), (std::vector<int>{0, 1, 2, 3, 4}));
  });
  for (const horingComm_t child : children) EXPECT_HORING(horingCommDestroy(child));
}

TEST(ShrinkArguments, AreRefusedBeforeAnybodyWaits) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingComm_t child = nullptr;
  int one[] = {1};
  const auto refused = [&](horingResult_t result, const char* named) {
    return refuses(result, horingInvalidArgument, named);
  };
  EXPECT_TRUE(refused(horingCommShrink(nullptr, one, 1, &child, nullptr, 0), "comm is NULL"));
  EXPECT_TRUE(refused(horingCommShrink(comms[0], one, 1, nullptr, nullptr, 0), "newcomm"));
  EXPECT_TRUE(refused(horingCommShrink(comms[0], nullptr, 1, &child, nullptr, 0), "excludeRanksList"));
  EXPECT_TRUE(refused(horingCommShrink(comms[0], one, 0, &child, nullptr, 0), "excludeRanksCount 0"));
  EXPECT_TRUE(refused(horingCommShrink(comms[0], one, 1, &child, nullptr, 2), "shrinkFlags is 2"));
  EXPECT_TRUE(refused(shrink(comms[0], {0, 1}, &child), "excludeRanksCount 2"));
  EXPECT_TRUE(refused(shrink(comms[0], {2}, &child), "has 2"));
  EXPECT_TRUE(refused(shrink(comms[0], {-1}, &child), "has -1"));
  EXPECT_TRUE(refused(shrink(comms[0], {0}, &child), "which is this one"));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  const std::vector<horingComm_t> three = makeCommunicators(3, Meeting::kInitAll);
  EXPECT_TRUE(refused(shrink(three[0], {1, 1}, &child), "rank 1 twice"));
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_TRUE(refused(horingCommShrink(three[0], one, 1, &child, &config, 0), "config.blocking"));
  for (const horingComm_t comm : three) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(ShrinkTrouble, RanksThatDisagreeAreNamed) {
  const std::vector<horingComm_t> comms = makeCommunicators(4, Meeting::kInitRank);
  onEveryRank(3, [&](int rank) {
    horingComm_t child = nullptr;
    EXPECT_TRUE(refuses(shrink(comms[static_cast<size_t>(rank)], {rank == 1 ? 2 : 3}, &child),
                        horingInvalidUsage, "excludes other ranks"));
    EXPECT_EQ(child, nullptr);
    // They think again.
    ASSERT_HORING(shrink(comms[static_cast<size_t>(rank)], {3}, &child));
    EXPECT_EQ(gathered(child, rank), (std::vector<int>{0, 1, 2}));
    EXPECT_HORING(horingCommDestroy(child));
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(ShrinkTrouble, ThoseThatDoNotComeAreNamedAndMayBeExcludedThen) {
  Setting soon("HORING_INIT_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(5, Meeting::kInitRank);
  for (const int absent : {1, 0}) {
    onEveryRank(5, [&](int rank) {
      if (rank == absent || rank == 4) return;
      horingComm_t child = nullptr;
      EXPECT_TRUE(refuses(shrink(comms[static_cast<size_t>(rank)], {4}, &child), horingTimeout,
                          absent == 1 ? "rank 1 of 4 did not arrive" : "whose rank 0 hosts it"));
      if (absent == 1) return;
      ASSERT_HORING(shrink(comms[static_cast<size_t>(rank)], {4, 0}, &child));
      EXPECT_EQ(gathered(child, rank), (std::vector<int>{1, 2, 3}));
      EXPECT_HORING(horingCommDestroy(child));
    });
  }
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// All ranks of `comms`, and more, each on a thread.
std::vector<horingComm_t> grown(const std::vector<horingComm_t>& comms, int ranks, bool only_maker_has_id) {
  std::vector<horingComm_t> larger(static_cast<size_t>(ranks));
  horingUniqueId id;
  EXPECT_HORING(horingCommGetUniqueId(comms[1], &id));
  onEveryRank(ranks, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    const bool stays = at < comms.size();
    const bool has_id = !stays || rank == 1 || !only_maker_has_id;
    EXPECT_HORING(horingCommGrow(stays ? comms[at] : nullptr, ranks, has_id ? &id : nullptr,
                                 stays ? -1 : rank, &larger[at], nullptr));
  });
  return larger;
}
void expectTogether(const std::vector<horingComm_t>& comms) {
  std::vector<int> all(comms.size());
  std::iota(all.begin(), all.end(), 0);
  onEveryRank(static_cast<int>(comms.size()),
              [&](int rank) { EXPECT_EQ(gathered(comms[static_cast<size_t>(rank)], rank), all); });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST_P(Split, GrowsByRanksThatJoin) {
  expectTogether(grown(comms_, kRanks + 3, true));
  expectTogether(grown(comms_, kRanks + 1, false));
  onEveryRank(kRanks, [&](int rank) { EXPECT_EQ(gathered(comm(rank), rank).size(), size_t{kRanks}); });
}

TEST_P(Split, OneThreadGrowsAllRanksInAGroup) {
  horingUniqueId id;
  std::vector<horingComm_t> larger(kRanks + 1);
  ASSERT_HORING(horingCommGetUniqueId(comm(0), &id));
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < kRanks; ++rank)
    ASSERT_HORING(horingCommGrow(comm(rank), kRanks + 1, rank == 0 ? &id : nullptr, -1,
                                 &larger[static_cast<size_t>(rank)], nullptr));
  ASSERT_HORING(horingCommGrow(nullptr, kRanks + 1, &id, kRanks, &larger.back(), nullptr));
  ASSERT_HORING(horingGroupEnd());
  expectTogether(larger);
}

// The operation that a rank waits for ends, and the ranks can continue together, or without one.
TEST_P(Split, IsRevokedAndGrowsOrShrinksThen) {
  std::vector<std::thread> waiting;
  for (int rank = 0; rank < kRanks - 1; ++rank)
    waiting.emplace_back([&, rank] {
      int x = 1;
      EXPECT_NE(horingAllReduce(&x, &x, 1, horingInt, horingSum, comm(rank), nullptr), horingSuccess);
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  onEveryRank(kRanks, [&](int rank) { EXPECT_HORING(horingCommRevoke(comm(rank), HORING_REVOKE_DEFAULT)); });
  for (std::thread& each : waiting) each.join();
  int x = 1;
  EXPECT_TRUE(
      refuses(horingCommRevoke(comm(0), HORING_REVOKE_DEFAULT), horingInvalidArgument, "revoked before"));
  EXPECT_NE(horingAllReduce(&x, &x, 1, horingInt, horingSum, comm(0), nullptr), horingSuccess);
  expectTogether(grown(comms_, kRanks + 1, true));
  std::vector<horingComm_t> smaller(kRanks - 1);
  onEveryRank(kRanks - 1, [&](int rank) {
    int gone = kRanks - 1;
    EXPECT_HORING(horingCommShrink(comm(rank), &gone, 1, &smaller[static_cast<size_t>(rank)], nullptr,
                                   HORING_SHRINK_DEFAULT));
  });
  expectTogether(smaller);
}

TEST(GrowArguments, AreRefused) {
  const Setting soon("HORING_INIT_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  horingUniqueId id, other;
  ASSERT_HORING(horingCommGetUniqueId(comms[0], &id));
  ASSERT_HORING(horingCommGetUniqueId(comms[0], &other));
  EXPECT_TRUE(refuses(horingCommGetUniqueId(comms[0], nullptr), horingInvalidArgument, "uniqueId is NULL"));
  EXPECT_TRUE(refuses(horingCommGetUniqueId(nullptr, &id), horingInvalidArgument, "comm is NULL"));
  const auto grow = [&](int rank, int ranks, const horingUniqueId* with, int as) {
    horingComm_t none = nullptr;
    return horingCommGrow(rank < 0 ? nullptr : comms[static_cast<size_t>(rank)], ranks, with, as, &none,
                          nullptr);
  };
  EXPECT_TRUE(refuses(grow(0, 2, &id, -1), horingInvalidArgument, "nRanks is 2: expected 3"));
  EXPECT_TRUE(refuses(grow(0, 3, &id, 1), horingInvalidArgument, "rank is 1: expected -1"));
  EXPECT_TRUE(refuses(grow(-1, 3, nullptr, 2), horingInvalidArgument, "uniqueId is NULL"));
  EXPECT_TRUE(refuses(horingCommGrow(comms[0], 3, &id, -1, nullptr, nullptr), horingInvalidArgument,
                      "newcomm is NULL"));
  EXPECT_TRUE(refuses(horingCommRevoke(comms[0], 1), horingInvalidArgument, "revokeFlags is 1"));
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(grow(rank, 3, nullptr, -1), horingInvalidUsage, "no rank was given an ID"));
  });
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(grow(rank, 3, rank == 0 ? &id : &other, -1), horingInvalidUsage, "another ID"));
  });
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(grow(rank, 3 + rank, &id, -1), horingInvalidUsage, "the same nRanks"));
  });
  // No rank joins.
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(grow(rank, 3, &id, -1), horingTimeout, "rank 2 of 3 did not arrive"));
  });
  // So the ID is used up, and both learn that at once, even the rank that did not have it.
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(refuses(grow(rank, 3, rank == 0 ? &id : nullptr, -1), horingInvalidUsage, "used already"));
  });
  // A communicator that has ended in order stays ended.
  onEveryRank(2, [&](int rank) { EXPECT_HORING(horingCommFinalize(comms[static_cast<size_t>(rank)])); });
  EXPECT_HORING(horingCommRevoke(comms[0], HORING_REVOKE_DEFAULT));
  horingResult_t error = horingInternalError;
  EXPECT_HORING(horingCommGetAsyncError(comms[0], &error));
  EXPECT_EQ(error, horingSuccess);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
