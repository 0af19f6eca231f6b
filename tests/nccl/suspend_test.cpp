// NCCL's functions that give a communicator's memory back.
#include "clients.h"

namespace {

uint64_t statOf(ncclComm_t comm, ncclCommMemStat_t stat) {
  uint64_t value = ~uint64_t{0};
  EXPECT_NCCL(ncclCommMemStats(comm, stat, &value));
  return value;
}

TEST(NcclSuspend, GivesMemoryBackAsTheStatisticsShow) {
  const std::vector<ncclComm_t> comms = meet(2);
  EXPECT_GT(statOf(comms[1], ncclStatGpuMemTotal), 0u);
  EXPECT_EQ(statOf(comms[1], ncclStatGpuMemSuspend), statOf(comms[1], ncclStatGpuMemTotal));
  EXPECT_EQ(statOf(comms[1], ncclStatGpuMemPersist), 0u);
  EXPECT_EQ(statOf(comms[1], ncclStatGpuMemSuspended), 0u);
  EXPECT_TRUE(refuses(ncclCommResume(comms[0]), ncclInvalidUsage, "not suspended"));

  onEveryRank(
      2, [&](int rank) { EXPECT_NCCL(ncclCommSuspend(comms[static_cast<size_t>(rank)], NCCL_SUSPEND_MEM)); });
  EXPECT_EQ(statOf(comms[1], ncclStatGpuMemSuspended), 1u);
  EXPECT_EQ(statOf(comms[1], ncclStatGpuMemTotal), 0u);
  EXPECT_TRUE(refuses(ncclCommSuspend(comms[0], NCCL_SUSPEND_MEM), ncclInvalidUsage, "suspended"));
  int x = 1;
  EXPECT_TRUE(refuses(ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, comms[0], nullptr), ncclInvalidUsage,
                      "comm is suspended"));

  onEveryRank(2, [&](int rank) { EXPECT_NCCL(ncclCommResume(comms[static_cast<size_t>(rank)])); });
  onEveryRank(2, [&](int rank) {
    int sum = rank + 1;
    EXPECT_NCCL(ncclAllReduce(&sum, &sum, 1, ncclInt, ncclSum, comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(sum, 3);
  });
  destroyAll(comms);
}

}  // namespace
