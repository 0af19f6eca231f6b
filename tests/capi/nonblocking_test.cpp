// config.blocking = 0: communicators that are made while the caller does something else.
#include <thread>

#include "ranks.h"

namespace {

// Begins to make rank `rank` of `ranks`.
horingComm_t begin(const horingUniqueId& id, int rank, int ranks) {
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 0;
  horingComm_t comm = nullptr;
  EXPECT_EQ(horingCommInitRankConfig(&comm, ranks, id, rank, &config), horingInProgress);
  EXPECT_NE(comm, nullptr);
  return comm;
}

horingResult_t outcome(horingComm_t comm) {
  horingResult_t result = horingInProgress;
  while (result == horingInProgress) {
    EXPECT_HORING(horingCommGetAsyncError(comm, &result));
    std::this_thread::yield();
  }
  return result;
}

horingResult_t sum(horingComm_t comm, float* x) {
  return horingAllReduce(x, x, 1, horingFloat, horingSum, comm, nullptr);
}

void expectWorks(const std::vector<horingComm_t>& comms) {
  for (const horingComm_t comm : comms) ASSERT_EQ(outcome(comm), horingSuccess) << horingGetLastError(comm);
  onEveryRank(static_cast<int>(comms.size()), [&](int rank) {
    float x = 1;
    EXPECT_HORING(sum(comms[static_cast<size_t>(rank)], &x));
    EXPECT_EQ(x, static_cast<float>(comms.size()));
  });
  for (const horingComm_t comm : comms) {
    EXPECT_HORING(horingCommFinalize(comm));
    EXPECT_HORING(horingCommDestroy(comm));
  }
}

TEST(Nonblocking, OneThreadMakesAllRanks) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  std::vector<horingComm_t> comms;
  for (int rank = 0; rank < 3; ++rank) comms.push_back(begin(id, rank, 3));
  expectWorks(comms);
}

TEST(Nonblocking, InAGroup) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  std::vector<horingComm_t> comms(2, nullptr);
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 0;
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_HORING(horingCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config));
  EXPECT_EQ(horingGroupEnd(), horingInProgress);
  expectWorks(comms);
}

TEST(Nonblocking, WhileItIsMadeItIsRefusedAndMayBeAborted) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  const horingComm_t comm = begin(id, 0, 2);  // rank 1 does not come
  horingResult_t state = horingSuccess;
  EXPECT_HORING(horingCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, horingInProgress);
  float x = 1;
  int count = 0;
  EXPECT_TRUE(refuses(sum(comm, &x), horingInvalidArgument, "still being made"));
  EXPECT_TRUE(refuses(horingCommCount(comm, &count), horingInvalidArgument, "still being made"));
  EXPECT_TRUE(refuses(horingCommFinalize(comm), horingInvalidArgument, "still being made"));
  EXPECT_TRUE(refuses(horingCommDestroy(comm), horingInvalidArgument, "horingCommAbort"));
  EXPECT_HORING(horingCommAbort(comm));
  EXPECT_EQ(horingCommAbort(comm), horingInvalidArgument);
}

// Rank 0 of 2 at the timeout of rank 1, which never arrives. On a busy machine rank 0 may not have arrived by then either, and the
// error cannot name rank 1; then it gets more time.
horingComm_t withoutRank1() {
  for (int timeout_ms = 300;; timeout_ms *= 4) {
    const Setting soon("HORING_INIT_TIMEOUT_MS", std::to_string(timeout_ms));
    horingUniqueId id;
    EXPECT_HORING(horingGetUniqueId(&id));
    const horingComm_t comm = begin(id, 0, 2);
    EXPECT_EQ(outcome(comm), horingTimeout);
    const bool came = std::string(horingGetLastError(comm)).find("did not arrive") != std::string::npos;
    if (came || timeout_ms > 10'000) return comm;
    EXPECT_HORING(horingCommDestroy(comm));
  }
}

TEST(Nonblocking, AFailureIsToldByAllThatAsk) {
  for (const bool aborts : {false, true}) {
    const horingComm_t comm = withoutRank1();
    float x = 1;
    EXPECT_TRUE(refuses(sum(comm, &x), horingTimeout, "rank"));
    EXPECT_NE(std::string(horingGetLastError(comm)).find("rank"), std::string::npos)
        << horingGetLastError(comm);
    int failed = -2;
    EXPECT_HORING(horingCommGetFailedRank(comm, &failed));
    EXPECT_EQ(failed, 1);
    EXPECT_HORING(aborts ? horingCommAbort(comm) : horingCommDestroy(comm));
  }
}

horingConfig_t withoutBlocking() {
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// One thread calls for all ranks, twice, before they can have met; calls on the parents meanwhile run in their turn.
TEST(Nonblocking, OneThreadSplitsForAllRanks) {
  std::vector<horingComm_t> parents = makeCommunicators(4, Meeting::kInitAll);
  std::vector<horingComm_t> halves[2], whole;
  horingConfig_t config = withoutBlocking();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(horingCommSplit(parents[static_cast<size_t>(rank)], rank % 2, 0,
                              &halves[rank % 2].emplace_back(nullptr), &config),
              horingInProgress);
  for (int rank = 3; rank >= 0; --rank)
    EXPECT_EQ(
        horingCommSplit(parents[static_cast<size_t>(rank)], 0, -rank, &whole.emplace_back(nullptr), &config),
        horingInProgress);
  onEveryRank(4, [&](int rank) {
    float x = 1;
    EXPECT_HORING(sum(parents[static_cast<size_t>(rank)], &x));
    EXPECT_EQ(x, 4);
  });
  expectWorks(halves[0]);
  expectWorks(halves[1]);
  int place = -1;
  ASSERT_EQ(outcome(whole[0]), horingSuccess);
  EXPECT_HORING(horingCommUserRank(whole[0], &place));
  EXPECT_EQ(place, 0) << "ordered by key: parent's rank 3 is the first";
  expectWorks(whole);
  for (const horingComm_t comm : parents) EXPECT_HORING(horingCommDestroy(comm));
}

// Unless a config changes it; this includes grandchildren.
TEST(Nonblocking, HoldsForCommunicatorsMadeOfIt) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  std::vector<horingComm_t> parents;
  for (int rank = 0; rank < 2; ++rank) parents.push_back(begin(id, rank, 2));
  for (const horingComm_t comm : parents) ASSERT_EQ(outcome(comm), horingSuccess);
  std::vector<horingComm_t> children(2), grandchildren, waited_for(2);
  horingConfig_t undefined = HORING_CONFIG_INITIALIZER, blocking = undefined;
  blocking.blocking = 1;
  // One thread for both: it would wait for ever.
  for (size_t rank = 0; rank < 2; ++rank)
    ASSERT_EQ(horingCommSplit(parents[rank], 0, 0, &children[rank], nullptr), horingInProgress);
  for (const horingComm_t comm : children) ASSERT_EQ(outcome(comm), horingSuccess);
  for (const horingComm_t comm : children)
    ASSERT_EQ(horingCommSplit(comm, 0, 0, &grandchildren.emplace_back(nullptr), &undefined),
              horingInProgress);
  onEveryRank(2, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    EXPECT_HORING(horingCommSplit(parents[at], 0, 0, &waited_for[at], &blocking));
  });
  for (const auto& comms : {grandchildren, waited_for, children, parents}) expectWorks(comms);
}

TEST(Nonblocking, WhoHasNoColorWaitsForTheOthers) {
  std::vector<horingComm_t> parents = makeCommunicators(3, Meeting::kInitAll);
  std::vector<horingComm_t> children(3, parents[0]);
  onEveryRank(3, [&](int rank) {
    horingConfig_t config = withoutBlocking();
    const auto at = static_cast<size_t>(rank);
    EXPECT_EQ(horingCommSplit(parents[at], rank == 1 ? HORING_SPLIT_NOCOLOR : 5, 0, &children[at], &config),
              rank == 1 ? horingSuccess : horingInProgress);
  });
  EXPECT_EQ(children[1], nullptr);
  expectWorks({children[0], children[2]});
  for (const horingComm_t comm : parents) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Nonblocking, OneThreadShrinksForAllRanksThatStay) {
  std::vector<horingComm_t> parents = makeCommunicators(4, Meeting::kInitAll);
  std::vector<horingComm_t> children;
  horingConfig_t config = withoutBlocking();
  int excluded[] = {1};
  for (const int rank : {0, 2, 3})
    EXPECT_EQ(horingCommShrink(parents[static_cast<size_t>(rank)], excluded, 1,
                               &children.emplace_back(nullptr), &config, HORING_SHRINK_ABORT),
              horingInProgress);
  expectWorks(children);
  for (const horingComm_t comm : parents) EXPECT_HORING(horingCommAbort(comm));
}

TEST(Nonblocking, AParentsEndEndsTheSplit) {
  std::vector<horingComm_t> parents = makeCommunicators(2, Meeting::kInitAll);
  horingConfig_t config = withoutBlocking();
  horingComm_t child = nullptr;
  ASSERT_EQ(horingCommSplit(parents[0], 0, 0, &child, &config), horingInProgress);
  EXPECT_HORING(horingCommAbort(parents[0]));
  EXPECT_EQ(outcome(child), horingInvalidUsage) << horingGetLastError(child);
  EXPECT_HORING(horingCommDestroy(child));
  EXPECT_HORING(horingCommAbort(parents[1]));
}

TEST(GroupInit, AnAbortByAnotherThreadLeavesNoHandle) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingGroupStart());
  ASSERT_HORING(horingCommInitRank(&comm, 2, id, 0));  // rank 1 does not come
  std::thread other([making = comm] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // so that it is being made, as a rule
    EXPECT_HORING(horingCommAbort(making));
  });
  EXPECT_NE(horingGroupEnd(), horingSuccess);
  other.join();
  EXPECT_EQ(comm, nullptr);
}

// The peer of what the group has made must not wait for a rank that has given up.
TEST(GroupInit, OneThatFailsEndsTheOthers) {
  const Setting soon("HORING_INIT_TIMEOUT_MS", 1500 * horing::test::kSlowdown),
      late("HORING_TIMEOUT_MS", "20000");
  horingUniqueId good, bad;
  ASSERT_HORING(horingGetUniqueId(&good));
  ASSERT_HORING(horingGetUniqueId(&bad));
  std::thread peer([&] {
    horingComm_t comm = nullptr;
    ASSERT_HORING(horingCommInitRank(&comm, 2, good, 1));
    float x = 1;
    EXPECT_TRUE(refuses(sum(comm, &x), horingRemoteError, "rank 0"));
    EXPECT_HORING(horingCommDestroy(comm));
  });
  horingComm_t made = nullptr, failed = nullptr;
  ASSERT_HORING(horingGroupStart());
  ASSERT_HORING(horingCommInitRank(&made, 2, good, 0));
  ASSERT_HORING(horingCommInitRank(&failed, 2, bad, 0));  // whose rank 1 does not come
  EXPECT_TRUE(refuses(horingGroupEnd(), horingTimeout, "rank 1 of 2 did not arrive"));
  peer.join();
  EXPECT_EQ(failed, nullptr);
  ASSERT_NE(made, nullptr);
  float x = 1;
  EXPECT_TRUE(refuses(sum(made, &x), horingInvalidUsage, "aborted"));
  EXPECT_HORING(horingCommDestroy(made));
}

}  // namespace
