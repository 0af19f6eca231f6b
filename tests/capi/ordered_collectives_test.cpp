// Blocks in another order than that of the ranks.
#include <algorithm>

#include "ranks.h"

namespace {

// Ranks dealt out to groups in turn, so that rank, position and rail-major number all differ.
const std::vector<const char*> kDealt = {"a", "b", "a", "b", "a", "b"};
constexpr int kRailMajor[] = {0, 1, 2, 3, 4, 5};  // local index rank / 2, group rank % 2
// Groups one after the other.
const std::vector<const char*> kBlocks = {"a", "a", "a", "b", "b", "b"};
constexpr int kRailMajorOfBlocks[] = {0, 2, 4, 1, 3, 5};
constexpr int kRanks = 6;

int64_t element(int rank, size_t i) {
  return static_cast<int64_t>(i * 17) * (rank + 1) + rank;
}

class Ordered : public testing::TestWithParam<const char*> {
 protected:
  Ordered() : algorithm_("HORING_ALGO", GetParam()) {}
  ~Ordered() override {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }
  void make(const std::vector<const char*>& labels) { comms_ = makeGroups(labels); }
  horingComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }

  void expectGathered(horingBlockOrder_t order, const int* block_of, bool in_place) {
    onEveryRank(kRanks, [&](int rank) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{20000}}) {
        std::vector<int64_t> input(count), output(count * kRanks, -1);
        for (size_t i = 0; i < count; ++i) input[i] = element(rank, i);
        int64_t* own = output.data() + static_cast<size_t>(block_of[rank]) * count;
        if (in_place) std::copy(input.begin(), input.end(), own);
        ASSERT_HORING(horingAllGatherOrdered(in_place ? own : input.data(), output.data(), count, horingInt64,
                                             order, comm(rank), nullptr));
        for (int peer = 0; peer < kRanks; ++peer)
          for (size_t i = 0; i < count; ++i)
            ASSERT_EQ(output[static_cast<size_t>(block_of[peer]) * count + i], element(peer, i))
                << "rank " << rank << ", block of rank " << peer << ", element " << i;
      }
    });
  }

  void expectScattered(horingBlockOrder_t order, const int* block_of, bool in_place) {
    onEveryRank(kRanks, [&](int rank) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1021}, size_t{20000}}) {
        std::vector<int64_t> input(count * kRanks), output(count, -1);
        for (size_t i = 0; i < input.size(); ++i) input[i] = element(rank, i);
        const size_t first = static_cast<size_t>(block_of[rank]) * count;
        int64_t* result = in_place ? input.data() + first : output.data();
        ASSERT_HORING(horingReduceScatterOrdered(input.data(), result, count, horingInt64, horingSum, order,
                                                 comm(rank), nullptr));
        for (size_t i = 0; i < count; ++i) {
          int64_t expected = 0;
          for (int peer = 0; peer < kRanks; ++peer) expected += element(peer, first + i);
          ASSERT_EQ(result[i], expected) << "rank " << rank << ", element " << i;
        }
      }
    });
  }

  void expectOrder(horingBlockOrder_t order, const int* block_of) {
    for (int rank = 0; rank < kRanks; ++rank) {
      int block = -1;
      ASSERT_HORING(horingCommBlock(comm(0), order, rank, &block));
      EXPECT_EQ(block, block_of[rank]) << "rank " << rank;
    }
    for (const bool in_place : {false, true}) {
      expectGathered(order, block_of, in_place);
      expectScattered(order, block_of, in_place);
    }
  }

 private:
  Setting algorithm_;
  std::vector<horingComm_t> comms_;
};

TEST_P(Ordered, BlocksAreWhereTheOrderSays) {
  make(kBlocks);
  ASSERT_FALSE(HasFailure());
  // In turns: the layout for one order must not serve the other.
  expectOrder(horingRailMajor, kRailMajorOfBlocks);
  expectOrder(horingRankMajor, kRailMajor);
  expectOrder(horingRailMajor, kRailMajorOfBlocks);
}

TEST_P(Ordered, RailMajorIsByLocalIndexWhateverTheRanksNumbers) {
  make(kDealt);
  ASSERT_FALSE(HasFailure());
  expectOrder(horingRailMajor, kRailMajor);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Ordered, testing::Values("auto", "ring", "direct", "ho_ring"));

TEST(OrderedCollectives, RefuseRailsOfUnequalGroups) {
  const std::vector<horingComm_t> comms = makeGroups({"a", "a", "b"});
  ASSERT_FALSE(testing::Test::HasFailure());
  float in[4] = {}, out[12] = {};
  int block = -1;
  for (const horingResult_t result :
       {horingAllGatherOrdered(in, out, 4, horingFloat, horingRailMajor, comms[0], nullptr),
        horingReduceScatterOrdered(out, in, 4, horingFloat, horingSum, horingRailMajor, comms[0], nullptr),
        horingCommBlock(comms[0], horingRailMajor, 0, &block)}) {
    EXPECT_EQ(result, horingInvalidUsage);
    EXPECT_NE(std::string(horingGetLastError(comms[0])).find("groups of one size"), std::string::npos)
        << horingGetLastError(comms[0]);
  }
  EXPECT_EQ(block, -1);
  ASSERT_HORING(horingCommBlock(comms[0], horingRankMajor, 2, &block));
  EXPECT_EQ(block, 2);
  // Nothing of this sticks.
  onEveryRank(3, [&](int rank) {
    std::vector<float> own(4, static_cast<float>(rank)), all(12);
    ASSERT_HORING(horingAllGatherOrdered(own.data(), all.data(), 4, horingFloat, horingRankMajor,
                                         comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(all[8], 2.0f);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(OrderedCollectives, RefuseRanksThatDisagree) {
  const std::vector<horingComm_t> comms = makeGroups({"a", "a", "b", "b"});
  ASSERT_FALSE(testing::Test::HasFailure());
  onEveryRank(4, [&](int rank) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    const horingBlockOrder_t order = rank == 3 ? horingRankMajor : horingRailMajor;
    std::vector<float> own(100), all(400);
    // The ranks that exchange with the odd one learn it from the message, the others from those ranks.
    const horingResult_t result =
        horingAllGatherOrdered(own.data(), all.data(), 100, horingFloat, order, comm, nullptr);
    EXPECT_TRUE(result == horingInvalidUsage || result == horingRemoteError) << result;
    EXPECT_NE(std::string(horingGetLastError(comm)).find("order of blocks"), std::string::npos)
        << horingGetLastError(comm);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(OrderedCollectives, TellsWhoIsInWhichGroupAlsoOfUnequalOnes) {
  const std::vector<horingComm_t> comms = makeGroups({"b", "a", "b"});
  ASSERT_FALSE(testing::Test::HasFailure());
  constexpr int kGroups[] = {0, 1, 0}, kLocals[] = {0, 0, 1};
  for (const horingComm_t comm : comms)
    for (int rank = 0; rank < 3; ++rank) {
      int group = -1, local = -1;
      ASSERT_HORING(horingCommGroup(comm, rank, &group, &local));
      EXPECT_EQ(group, kGroups[rank]) << "rank " << rank;
      EXPECT_EQ(local, kLocals[rank]) << "rank " << rank;
    }
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(OrderedCollectives, NameWhatIsWrong) {
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingCommInitAll(&comm, 1, nullptr));
  float data[4] = {};
  int block = 0;
  const auto expectRefused = [&](horingResult_t result, const char* named) {
    EXPECT_EQ(result, horingInvalidArgument);
    EXPECT_NE(std::string(horingGetLastError(nullptr)).find(named), std::string::npos)
        << horingGetLastError(nullptr);
  };
  const auto neither = static_cast<horingBlockOrder_t>(2);
  expectRefused(horingAllGatherOrdered(data, data, 4, horingFloat, neither, comm, nullptr), "order is 2");
  expectRefused(horingCommBlock(comm, horingRankMajor, 1, &block), "rank is 1");
  expectRefused(horingCommBlock(comm, horingRankMajor, 0, nullptr), "block is NULL");
  expectRefused(horingCommGroup(comm, 1, &block, &block), "rank is 1");
  expectRefused(horingCommGroup(comm, 0, &block, nullptr), "localIndex is NULL");
  expectRefused(horingAllGatherOrdered(data, data, 4, horingFloat, horingRailMajor, nullptr, nullptr),
                "comm");
  EXPECT_HORING(horingAllGatherOrdered(data, data, 4, horingFloat, horingRailMajor, comm, nullptr));
  EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
