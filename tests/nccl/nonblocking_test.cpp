// Communicators with config.blocking = 0 through NCCL's interface, as PyTorch makes them where TORCH_NCCL_USE_COMM_NONBLOCKING is set.
#include <chrono>

#include "clients.h"
#include "horing/horing.h"

namespace {

ncclConfig_t notBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclResult_t outcomeOf(ncclComm_t comm) {
  ncclResult_t result = ncclInProgress;
  while (result == ncclInProgress) {
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &result));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return result;
}

void expectWorks(const std::vector<ncclComm_t>& comms) {
  onEveryRank(static_cast<int>(comms.size()), [&](int rank) {
    float x = 1;
    EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(x, static_cast<float>(comms.size()));
  });
}

void endAll(const std::vector<ncclComm_t>& comms) {
  for (const ncclComm_t comm : comms) {
    const ncclResult_t begun = ncclCommFinalize(comm);
    EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress) << ncclGetLastError(nullptr);
    EXPECT_EQ(outcomeOf(comm), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_NCCL(ncclCommDestroy(comm));
  }
}

// One thread for all ranks, the last of which comes when horing's own deadline would have passed: this face has none.
TEST(NcclNonblocking, ACommunicatorAndItsChildrenAreMadeMeanwhile) {
  for (const char* const name : {"HORING_TIMEOUT_MS", "HORING_INIT_TIMEOUT_MS"})
    ASSERT_EQ(horingSetDefault(name, "300"), horingSuccess);
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = notBlocking();
  std::vector<ncclComm_t> comms(2), children(2), rest(1);
  for (int rank = 0; rank < 2; ++rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(900));
    ncclComm_t& comm = comms[static_cast<size_t>(rank)];
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    ASSERT_NE(comm, nullptr);
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(outcomeOf(comm), ncclSuccess) << ncclGetLastError(nullptr);
  expectWorks(comms);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(ncclCommSplit(comms[rank], 0, 0, &children[rank], nullptr), ncclInProgress);
  // A parent is in progress as long as its child is.
  for (const ncclComm_t comm : comms) EXPECT_EQ(outcomeOf(comm), ncclSuccess) << ncclGetLastError(nullptr);
  for (const ncclComm_t comm : children) EXPECT_EQ(outcomeOf(comm), ncclSuccess) << ncclGetLastError(nullptr);
  expectWorks(children);
  endAll(children);
  endAll(comms);
  for (const char* const name : {"HORING_TIMEOUT_MS", "HORING_INIT_TIMEOUT_MS"})
    EXPECT_EQ(horingSetDefault(name, nullptr), horingSuccess);
}

// The other rank never comes.
TEST(NcclNonblocking, OneThatIsBeingMadeIsBusyAndMayBeAborted) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = notBlocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  float x = 1;
  EXPECT_TRUE(refuses(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidArgument,
                      "still being made"));
  EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
  const auto begun = std::chrono::steady_clock::now();
  std::thread([&] { EXPECT_NCCL(ncclCommAbort(comm)); }).join();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

}  // namespace
