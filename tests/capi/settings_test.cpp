// horingConfig_t, and meeting with several IDs.
#include "ranks.h"

namespace {

using Change = void (*)(horingConfig_t&);

// Initialises a communicator of one rank with this change to the settings.
horingResult_t initWith(Change change, horingComm_t* comm) {
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  change(config);
  horingUniqueId id;
  EXPECT_HORING(horingGetUniqueId(&id));
  return horingCommInitRankConfig(comm, 1, id, 0, &config);
}

TEST(Settings, WhatIsNotAllowedIsNamed) {
  struct Case {
    Change change;
    const char* named;
  };
  const Case cases[] = {{[](horingConfig_t& c) { c.size -= 1; }, "HORING_CONFIG_INITIALIZER"},
                        {[](horingConfig_t& c) { c.magic = 1; }, "magic 0x1"},
                        {[](horingConfig_t& c) { c.blocking = 0; }, "config.blocking is 0"},
                        {[](horingConfig_t& c) { c.netName = "IB"; }, "config.netName is 'IB'"},
                        {[](horingConfig_t& c) { c.timeoutMs = 0; }, "config.timeoutMs is 0"},
                        {[](horingConfig_t& c) { c.timeoutMs = 86'400'001; }, "config.timeoutMs"}};
  for (const Case& one : cases) {
    horingComm_t comm = nullptr;
    EXPECT_TRUE(refuses(initWith(one.change, &comm), horingInvalidArgument, one.named));
    EXPECT_EQ(comm, nullptr);
  }
}

TEST(Settings, WhatMeansNothingHereIsIgnored) {
  horingComm_t comm = nullptr;
  ASSERT_HORING(initWith(
      [](horingConfig_t& c) {
        c.blocking = 1;
        c.cgaClusterSize = c.minCTAs = c.maxCTAs = c.splitShare = c.trafficClass = c.collnetEnable = 1;
        c.CTAPolicy = c.shrinkShare = c.nvlsCTAs = c.nChannelsPerNetPeer = c.nvlinkCentricSched = 1;
        c.netName = "Socket";
      },
      &comm));
  EXPECT_HORING(horingCommDestroy(comm));
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  ASSERT_HORING(horingCommInitRankConfig(&comm, 1, id, 0, nullptr));
  EXPECT_HORING(horingCommDestroy(comm));
}

std::string described(horingComm_t comm) {
  char text[4096] = "";
  EXPECT_HORING(horingCommDescribe(comm, text, sizeof text));
  return text;
}

TEST(Settings, NameAndDeadlineHoldForTheCommunicatorAndItsChildren) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  std::vector<horingComm_t> parents(2), named(2);
  onEveryRank(2, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.commName = "trainers";
    config.timeoutMs = 300;
    ASSERT_HORING(horingCommInitRankConfig(&parents[at], 2, id, rank, &config));
    horingComm_t child = nullptr;
    ASSERT_HORING(horingCommSplit(parents[at], 0, 0, &child, nullptr));
    EXPECT_EQ(described(child).find("trainers: 2 ranks"), 0u) << described(child);
    EXPECT_HORING(horingCommDestroy(child));
    config.commName = "others";
    config.timeoutMs = HORING_CONFIG_UNDEF_INT;
    ASSERT_HORING(horingCommSplit(parents[at], 0, 0, &named[at], &config));
    EXPECT_EQ(described(named[at]).find("others: 2 ranks"), 0u) << described(named[at]);
  });
  // Rank 1 does not call.
  for (const auto& comms : {parents, named}) {
    float x = 1;
    EXPECT_TRUE(refuses(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[0], nullptr), horingTimeout,
                        "300 ms"));
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  }
}

TEST(Scalable, RanksMeetWithSeveralIds) {
  horingUniqueId ids[2];
  for (horingUniqueId& id : ids) ASSERT_HORING(horingGetUniqueId(&id));
  onEveryRank(3, [&](int rank) {
    horingComm_t comm = nullptr;
    ASSERT_HORING(horingCommInitRankScalable(&comm, 3, rank, 2, ids, nullptr));
    float x = 1;
    EXPECT_HORING(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comm, nullptr));
    EXPECT_EQ(x, 3.0f);
    EXPECT_HORING(horingCommDestroy(comm));
  });
  Setting soon("HORING_INIT_TIMEOUT_MS", "300");
  horingComm_t comm = nullptr;
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 1, ids[1], 0), horingTimeout, "cannot be reached"))
      << "nobody listens for the ID that was not needed";
}

TEST(Scalable, BadIdsAreNamed) {
  horingUniqueId ids[2];
  ASSERT_HORING(horingGetUniqueId(&ids[0]));
  ids[1] = ids[0];
  ids[1].internal[5] ^= 1;
  horingComm_t comm = nullptr;
  EXPECT_TRUE(
      refuses(horingCommInitRankScalable(&comm, 2, 0, 0, ids, nullptr), horingInvalidArgument, "nId"));
  EXPECT_TRUE(
      refuses(horingCommInitRankScalable(&comm, 1, 0, 2, ids, nullptr), horingInvalidArgument, "nId"));
  EXPECT_TRUE(refuses(horingCommInitRankScalable(&comm, 2, 0, 1, nullptr, nullptr), horingInvalidArgument,
                      "commIds"));
  EXPECT_TRUE(
      refuses(horingCommInitRankScalable(&comm, 2, 0, 2, ids, nullptr), horingInvalidArgument, "commIds[1]"));
  EXPECT_TRUE(
      refuses(horingCommInitRankScalable(&comm, 1, 1, 1, ids, nullptr), horingInvalidArgument, "rank is 1"));
  ids[1] = ids[0];
  ASSERT_HORING(horingCommInitRankScalable(&comm, 1, 0, 1, ids, nullptr));
  EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
