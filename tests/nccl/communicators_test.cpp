// Settings of communicators by the caller's version, results, and refused arguments.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "../sanitizer.h"
#include "clients.h"
#include "horing/horing.h"
#include "nccl_device.h"

namespace {

// What a caller of a version of NCCL has.
struct Layout {
  unsigned int version;
  size_t size;
};
constexpr Layout kLayouts[] = {{21403, 24}, {21708, 40}, {21803, 48},  {22105, 48},
                               {22602, 48}, {22707, 72}, {22809, 80},  {22907, 88},
                               {23004, 96}, {23007, 96}, {23102, 112}, {23203, 120}};

// A field, the version that brought it, and a value that is refused.
struct Field {
  const char* name;
  unsigned int since;
  size_t at;
  int refused;
};
#define FIELD(name, since, refused) \
  { #name, since, offsetof(ncclConfig_t, name), refused }
constexpr Field kFields[] = {
    FIELD(blocking, 21400, 2),
    FIELD(cgaClusterSize, 21700, 9),
    FIELD(minCTAs, 21700, 0),
    FIELD(maxCTAs, 21700, 0),
    FIELD(splitShare, 21800, 2),
    FIELD(trafficClass, 22600, 256),
    FIELD(collnetEnable, 22700, 2),
    FIELD(CTAPolicy, 22700, 4),
    FIELD(shrinkShare, 22700, 2),
    FIELD(nvlsCTAs, 22700, 0),
    FIELD(nChannelsPerNetPeer, 22800, 0),
    FIELD(nvlinkCentricSched, 22800, 2),
    FIELD(graphUsageMode, 22900, 3),
    FIELD(numRmaCtx, 22900, 0),
    FIELD(maxP2pPeers, 23000, 0),
    FIELD(graphStreamOrdering, 23007, 2),
    FIELD(launchOrderImplicit, 23100, 2),
    FIELD(numRmaSig, 23100, -1),
    FIELD(rmaEagerInit, 23100, 2),
    FIELD(hostCftMode, 23100, 4),
    FIELD(nvlsHostMode, 23200, -1),
};
#undef FIELD

ncclResult_t initWith(ncclConfig_t config, ncclComm_t* comm) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  return ncclCommInitRankConfig(comm, 1, id, 0, &config);
}

TEST(NcclConfig, FieldsCountFromTheVersionThatHasThem) {
  for (const Layout& layout : kLayouts)
    for (const Field& field : kFields) {
      SCOPED_TRACE(std::string(field.name) + " of a caller of " + std::to_string(layout.version));
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.size = layout.size;
      config.version = layout.version;
      std::memcpy(reinterpret_cast<char*>(&config) + field.at, &field.refused, sizeof field.refused);
      ncclComm_t comm = nullptr;
      const ncclResult_t result = initWith(config, &comm);
      if (layout.version >= field.since) {
        EXPECT_TRUE(refuses(result, ncclInvalidArgument, std::string("config.") + field.name));
      } else {
        EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
        EXPECT_NCCL(ncclCommDestroy(comm));
      }
    }
}

TEST(NcclConfig, PointersCountFromTheVersionThatHasThem) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.version);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.size = layout.size;
    config.version = layout.version;
    config.commName = "by version";
    ncclComm_t comm = nullptr;
    ASSERT_NCCL(initWith(config, &comm));
    char text[4096] = "";
    EXPECT_EQ(horingCommDescribe(reinterpret_cast<horingComm_t>(comm), text, sizeof text), horingSuccess);
    EXPECT_EQ(std::string(text).starts_with("by version: "), layout.version >= 22700) << text;
    EXPECT_NCCL(ncclCommDestroy(comm));
    config.netName = "token ring";
    if (layout.version < 21700) continue;
    EXPECT_TRUE(refuses(initWith(config, &comm), ncclInvalidUsage, "token ring"));
  }
}

TEST(NcclConfig, OfANewerNcclMustLeaveUndefinedWhatIsNotKnown) {
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int newer[2] = {NCCL_CONFIG_UNDEF_INT, 0};
  } config;
  config.known.size = sizeof config;
  config.known.version = 23300;
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ASSERT_NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, &config.known));
  EXPECT_NCCL(ncclCommDestroy(comm));
  config.newer[0] = 1;
  EXPECT_TRUE(
      refuses(ncclCommInitRankConfig(&comm, 1, id, 0, &config.known), ncclInvalidArgument, "at byte 120"));
  config.known.magic = 0;
  EXPECT_TRUE(refuses(ncclCommInitRankConfig(&comm, 1, id, 0, &config.known), ncclInvalidArgument,
                      "NCCL_CONFIG_INITIALIZER"));
}

TEST(NcclConfig, MayAskForMoreBlocksThanThereAre) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  config.minCTAs = 2000;
  config.maxCTAs = 3000;
  ASSERT_NCCL(initWith(config, &comm));
  EXPECT_NCCL(ncclCommDestroy(comm));
  config.minCTAs = 3001;
  EXPECT_TRUE(refuses(initWith(config, &comm), ncclInvalidArgument, "which is 3000"));
}

TEST(NcclConfig, OfAChildIsReadTheSameWay) {
  const std::vector<ncclComm_t> comms = meet(2);
  onEveryRank(2, [&](int rank) {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t child = nullptr;
    config.splitShare = 2;
    EXPECT_TRUE(
        refuses(ncclCommSplit(comm, 0, 0, &child, &config), ncclInvalidArgument, "config.splitShare"));
    config.splitShare = 1;
    ASSERT_NCCL(ncclCommSplit(comm, rank, 0, &child, &config));
    int count = 0;
    EXPECT_NCCL(ncclCommCount(child, &count));
    EXPECT_EQ(count, 1);
    EXPECT_NCCL(ncclCommDestroy(child));
  });
  int gone = 1;
  ncclComm_t rest = nullptr;
  ASSERT_NCCL(ncclCommShrink(comms[0], &gone, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
  EXPECT_NCCL(ncclCommDestroy(rest));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommAbort(comm));
}

TEST(NcclVersion, IsTheLevelThatIsWholeOrThatIsAskedFor) {
  int version = 0;
  EXPECT_NCCL(ncclGetVersion(&version));
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  EXPECT_EQ(NCCL_VERSION_CODE, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
  EXPECT_EQ(NCCL_VERSION(2, 8, 4), 2804);
  for (const char* wanted : {"2.30.7", "23007"}) {
    const Variable level("HORING_NCCL_LEVEL", wanted);
    EXPECT_NCCL(ncclGetVersion(&version));
    EXPECT_EQ(version, 23007);
  }
  {
    const Variable level("HORING_NCCL_LEVEL", "2.30");
    EXPECT_NCCL(ncclGetVersion(&version));
    EXPECT_EQ(version, 23000);
  }
  for (const char* const wrong : {"new", "2.", "2.30.", "2.30.x"}) {
    const Variable level("HORING_NCCL_LEVEL", wrong);
    EXPECT_NCCL(ncclGetVersion(&version));
    EXPECT_EQ(version, NCCL_VERSION_CODE) << wrong;
  }
  EXPECT_TRUE(refuses(ncclGetVersion(nullptr), ncclInvalidArgument, "version is NULL"));
}

// A rank that never calls.
TEST(NcclAnswers, ADeadlineIsARemoteErrorToThoseWhoKnowNoTimeout) {
  const Variable soon("HORING_TIMEOUT_MS", "300");
  for (const bool is_known : {false, true}) {
    const Variable level("HORING_NCCL_LEVEL", is_known ? "2.30.7" : "2.29.7");
    const std::vector<ncclComm_t> comms = meet(2);
    float x = 1;
    const ncclResult_t expected = is_known ? ncclTimeout : ncclRemoteError;
    EXPECT_TRUE(refuses(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr), expected, "rank 1"));
    ncclResult_t sticky = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(comms[0], &sticky));
    EXPECT_EQ(sticky, expected);
    // Another thread gets the error, too.
    std::thread([&] {
      EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("rank 1"), std::string::npos);
    }).join();
    for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommAbort(comm));
  }
}

// Frameworks whose ranks come and go: a collective that never ends is revoked, and the other ranks continue with a new rank.
TEST(NcclElastic, RanksRevokeAndGrow) {
  std::vector<ncclComm_t> comms = meet(2), larger(3);
  std::thread waits([&] {
    float x = 1;
    EXPECT_NE(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr), ncclSuccess);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  waits.join();
  float x = 1;
  EXPECT_TRUE(
      refuses(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr), ncclInvalidUsage, "aborted"));
  EXPECT_TRUE(refuses(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT), ncclInvalidArgument, "revoked before"));
  ncclUniqueId id;
  ASSERT_NCCL(ncclCommGetUniqueId(comms[0], &id));
  onEveryRank(3, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    ASSERT_NCCL(ncclCommGrow(rank < 2 ? comms[at] : nullptr, 3, rank == 1 ? nullptr : &id, rank < 2 ? -1 : 2,
                             &larger[at], nullptr));
    float one = 1;
    EXPECT_NCCL(ncclAllReduce(&one, &one, 1, ncclFloat, ncclSum, larger[at], nullptr));
    EXPECT_EQ(one, 3);
  });
  destroyAll(comms);
  destroyAll(larger);
}

// Deadlines of a program's own communicators, which differ from this interface's.
class NcclDeadlines : public testing::Test {
 protected:
  static constexpr int kSoonMs = 300;
  void SetUp() override {
    for (const char* const name : kNames)
      ASSERT_EQ(horingSetDefault(name, std::to_string(kSoonMs).c_str()), horingSuccess);
  }
  void TearDown() override {
    for (const char* const name : kNames) EXPECT_EQ(horingSetDefault(name, nullptr), horingSuccess);
  }
  static void beLate(int rank) { std::this_thread::sleep_for(std::chrono::milliseconds(rank * 3 * kSoonMs)); }
  static void expectPatience(const std::vector<ncclComm_t>& comms) {
    onEveryRank(2, [&](int rank) {
      float x = 1;
      beLate(rank);
      EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[static_cast<size_t>(rank)], nullptr));
      EXPECT_EQ(x, 2);
    });
  }
  static constexpr const char* kNames[] = {"HORING_TIMEOUT_MS", "HORING_INIT_TIMEOUT_MS"};
};

TEST_F(NcclDeadlines, AreNoneForRanksThatAreLate) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> comms(2), children(2);
  onEveryRank(2, [&](int rank) {
    beLate(rank);
    EXPECT_NCCL(ncclCommInitRank(&comms[static_cast<size_t>(rank)], 2, id, rank));
  });
  expectPatience(comms);
  onEveryRank(2, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    beLate(rank);
    EXPECT_NCCL(ncclCommSplit(comms[at], 0, rank, &children[at], nullptr));
  });
  expectPatience(children);
  destroyAll(children);
  destroyAll(comms);
  ASSERT_NCCL(ncclGetUniqueId(&id));
  onEveryRank(2, [&](int rank) {
    beLate(rank);
    EXPECT_NCCL(ncclCommInitRankScalable(&comms[static_cast<size_t>(rank)], 2, rank, 1, &id, nullptr));
  });
  expectPatience(comms);
  destroyAll(comms);
  ASSERT_NCCL(ncclCommInitAll(comms.data(), 2, nullptr));
  expectPatience(comms);
  destroyAll(comms);
  // What the program makes itself has its own, also on this thread.
  horingUniqueId own;
  horingComm_t comm = nullptr;
  ASSERT_EQ(horingGetUniqueId(&own), horingSuccess);
  EXPECT_EQ(horingCommInitRank(&comm, 2, own, 0), horingTimeout);
}

TEST_F(NcclDeadlines, AreThoseOfTheEnvironment) {
  const Variable soon("HORING_TIMEOUT_MS", "200");
  {
    const Variable init("HORING_INIT_TIMEOUT_MS", "250");
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    EXPECT_TRUE(refuses(ncclCommInitRank(&comm, 2, id, 0), ncclRemoteError, "within 250 ms"));
  }
  std::vector<ncclComm_t> comms(2);  // on a busy machine later than that
  ASSERT_NCCL(ncclCommInitAll(comms.data(), 2, nullptr));
  float x = 1;
  EXPECT_TRUE(
      refuses(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr), ncclRemoteError, "200 ms"));
  for (const ncclComm_t each : comms) EXPECT_NCCL(ncclCommAbort(each));
}

// A rank that has gone ends what waits for it, whatever the deadline.
TEST_F(NcclDeadlines, AreNotAwaitedWhereARankIsGone) {
  std::vector<ncclComm_t> comms = meet(2);
  std::thread gone([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(kSoonMs));
    EXPECT_NCCL(ncclCommAbort(comms[1]));
  });
  float x = 1;
  EXPECT_TRUE(
      refuses(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr), ncclRemoteError, "rank 1"));
  gone.join();
  EXPECT_NCCL(ncclCommDestroy(comms[0]));
}

TEST(NcclGroups, HaveHandlesAtOnce) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> comms(2);
  ASSERT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    ncclComm_t& comm = comms[static_cast<size_t>(rank)];
    ASSERT_NCCL(ncclCommInitRank(&comm, 2, id, rank));
    ASSERT_NE(comm, nullptr);
    ncclResult_t state = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclInProgress);
    int count = 0;
    EXPECT_TRUE(refuses(ncclCommCount(comm, &count), ncclInvalidUsage, "end of the group"));
    EXPECT_TRUE(refuses(ncclCommAbort(comm), ncclInvalidUsage, "end of the group"));
  }
  const std::vector<ncclComm_t> given = comms;
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(comms, given);
  onEveryRank(2, [&](int rank) {
    float x = 1;
    EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(x, 2);
  });
  destroyAll(comms);
}

TEST(NcclGroups, LaunchNothingIfACallIsRefused) {
  const std::vector<ncclComm_t> comms = meet(2);
  ncclCollConfig_t of_call = NCCL_COLLCONFIG_INITIALIZER;
  of_call.CTAPolicy = 9;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  float x = 1, y = 1;
  ncclComm_t child = nullptr;
  for (const bool is_of_call : {true, false}) {
    ASSERT_NCCL(ncclGroupStart());
    ASSERT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr));
    EXPECT_EQ(is_of_call ? ncclAllReduceConfig(&y, &y, 1, ncclFloat, ncclSum, comms[1], nullptr, &of_call)
                         : ncclCommSplit(comms[1], 0, 0, &child, &config),
              ncclInvalidArgument);
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_TRUE(refuses(ncclGroupEnd(), ncclInvalidArgument, is_of_call ? "CTAPolicy is 9" : "magic 0x1"));
    EXPECT_EQ(x, 1);
  }
  const std::pair<const char*, std::function<ncclResult_t()>> never_served[] = {
      {"is not a window",
       [&] { return ncclPutSignal(&x, 1, ncclFloat, 0, nullptr, 0, 0, 0, 0, comms[1], nullptr); }},
      {"sigIdx is 1", [&] { return ncclSignal(0, 1, 0, 0, comms[1], nullptr); }},
      {"nDesc is 0", [&] { return ncclWaitSignal(0, nullptr, comms[1], nullptr); }},
      {"nRanks is 2", [&] { return ncclCommGrow(comms[1], 2, nullptr, -1, &child, nullptr); }},
  };
  for (const auto& [name, call] : never_served) {
    ASSERT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr));
    const ncclResult_t refused = call();
    EXPECT_NE(refused, ncclSuccess);
    EXPECT_TRUE(refuses(ncclGroupEnd(), refused, name));
    EXPECT_EQ(x, 1);
  }
  // The next one is as good as ever.
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comms[0], nullptr));
  EXPECT_NCCL(ncclAllReduce(&y, &y, 1, ncclFloat, ncclSum, comms[1], nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(y, 2);
  destroyAll(comms);
}

TEST(NcclGroups, AreSimulated) {
  const std::vector<ncclComm_t> comms = meet(4);
  std::vector<float> x(1 << 20, 1), y(4 << 20);
  // Only rank 0: it does not ask other ranks. All-reduces of one size, and of four times that, one after the other; then a message.
  const auto simulated = [&](const std::function<void()>& calls) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_NCCL(ncclGroupStart());
    calls();
    EXPECT_NCCL(ncclGroupSimulateEnd(&info));
    return info.estimatedTime;
  };
  const auto reduce = [&](size_t count) {
    EXPECT_NCCL(ncclAllReduce(y.data(), y.data(), count, ncclFloat, ncclSum, comms[0], nullptr));
  };
  const float once = simulated([&] { reduce(x.size()); });
  EXPECT_GT(once, 0);
  EXPECT_NEAR(simulated([&] { reduce(x.size()), reduce(x.size()); }), 2 * once, 0.01f * once);
  EXPECT_GT(simulated([&] { reduce(y.size()); }), 2 * once);
  EXPECT_GT(simulated([&] { EXPECT_NCCL(ncclSend(x.data(), x.size(), ncclFloat, 1, comms[0], nullptr)); }),
            0);
  EXPECT_EQ(simulated([] {}), 0);
  EXPECT_EQ(y, std::vector<float>(y.size())) << "something was launched";
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_EQ(ncclAllReduce(y.data(), y.data(), 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_TRUE(refuses(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "comm is NULL"));
  info.magic = 1;
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_TRUE(refuses(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "simInfo"));
  EXPECT_TRUE(refuses(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage, "without a"));
  destroyAll(comms);
}

TEST(NcclGroups, TakeHandlesBackIfTheyAreNotLaunched) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr, other = nullptr;
  ASSERT_NCCL(ncclGroupStart());
  ASSERT_NCCL(ncclCommInitRank(&comm, 2, id, 0));
  EXPECT_NE(comm, nullptr);
  EXPECT_EQ(ncclCommInitRank(&other, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  // Nor if ranks do not come.
  const Variable soon("HORING_INIT_TIMEOUT_MS", std::to_string(horing::test::kShortDeadlineMs));
  ASSERT_NCCL(ncclGroupStart());
  ASSERT_NCCL(ncclCommInitRank(&comm, 2, id, 0));
  EXPECT_TRUE(refuses(ncclGroupEnd(), ncclRemoteError, "rank 1 of 2 did not arrive"));
  EXPECT_EQ(comm, nullptr);
}

TEST(NcclAnswers, ASecondFinalizeIsAWrongArgument) {
  const std::vector<ncclComm_t> comms = meet(1);
  EXPECT_NCCL(ncclCommFinalize(comms[0]));
  EXPECT_TRUE(refuses(ncclCommFinalize(comms[0]), ncclInvalidArgument, "finalized before"));
  destroyAll(comms);
}

TEST(NcclAnswers, TellOfARankAndOfMemory) {
  const std::vector<ncclComm_t> comms = meet(2);
  int rank = -1, device = 0;
  uint64_t bytes = 0;
  EXPECT_NCCL(ncclCommUserRank(comms[1], &rank));
  EXPECT_EQ(rank, 1);
  EXPECT_NCCL(ncclCommCuDevice(comms[1], &device));
  EXPECT_NCCL(ncclCommMemStats(comms[1], ncclStatGpuMemTotal, &bytes));
  EXPECT_GT(bytes, 0u);
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  properties.deviceApiSupport = true;
  properties.size = offsetof(ncclCommProperties_t, hostRmaSupport);  // an older caller's
  EXPECT_NCCL(ncclCommQueryProperties(comms[1], &properties));
  EXPECT_EQ(properties.rank, 1);
  EXPECT_EQ(properties.nRanks, 2);
  EXPECT_FALSE(properties.deviceApiSupport);
  EXPECT_FALSE(properties.hostRmaSupport) << "behind the caller's struct";
  properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  EXPECT_NCCL(ncclCommQueryProperties(comms[1], &properties));
  EXPECT_TRUE(properties.hostRmaSupport);
  const ncclTeam_t world = ncclTeamWorld(comms[1]);
  EXPECT_EQ(world.nRanks, 2);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(ncclTeamLsa(comms[1]).nRanks, 1);
  EXPECT_EQ(ncclTeamRankToWorld(comms[1], world, 0), 0);
  void* memory = nullptr;
  EXPECT_NCCL(ncclMemAlloc(&memory, 4096));
  void* handle = nullptr;
  EXPECT_NCCL(ncclCommRegister(comms[1], memory, 4096, &handle));
  EXPECT_NCCL(ncclCommDeregister(comms[1], handle));
  EXPECT_NCCL(ncclMemFree(memory));
  EXPECT_TRUE(refuses(ncclMemFree(&rank), ncclInvalidArgument, "horingMemAlloc"));
  destroyAll(comms);
}

TEST(NcclAnswers, WhatIsNotServedIsRefusedWithAText) {
  const std::vector<ncclComm_t> comms = meet(1);
  const ncclComm_t comm = comms[0];
  ncclUniqueId id{};
  void* pointer = nullptr;
  size_t offset = 0;
  ncclCftLeId le = 0;
  const ncclTeam_t team = ncclTeamWorld(comm);
  const auto isNotServed = [](ncclResult_t result, const char* name) {
    return refuses(result, ncclInvalidUsage, std::string("horing does not serve ") + name);
  };
  EXPECT_TRUE(isNotServed(ncclDevCommCreate(comm, nullptr, nullptr), "ncclDevCommCreate"));
  EXPECT_TRUE(isNotServed(ncclDevCommDestroy(comm, nullptr), "ncclDevCommDestroy"));
  EXPECT_TRUE(isNotServed(ncclGetLsaDevicePointer(nullptr, 0, 0, &pointer), "ncclGetLsaDevicePointer"));
  EXPECT_TRUE(isNotServed(ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer), "ncclGetPeerDevicePointer"));
  EXPECT_TRUE(
      isNotServed(ncclGetLsaMultimemDevicePointer(nullptr, 0, &pointer), "ncclGetLsaMultimemDevicePointer"));
  EXPECT_TRUE(
      isNotServed(ncclGetMultimemDevicePointer(nullptr, 0, {}, &pointer), "ncclGetMultimemDevicePointer"));
  EXPECT_TRUE(
      isNotServed(ncclGetMultimemDeviceLeInfo(nullptr, 0, &le, &offset), "ncclGetMultimemDeviceLeInfo"));
  EXPECT_TRUE(
      isNotServed(ncclGetCftDeviceLeInfo(nullptr, 0, 0, team, &le, &offset), "ncclGetCftDeviceLeInfo"));
  EXPECT_TRUE(isNotServed(ncclGetPeerDeviceLeInfo(nullptr, 0, 0, &le, &offset), "ncclGetPeerDeviceLeInfo"));
  EXPECT_TRUE(isNotServed(ncclLsaBarrierCreateRequirement(team, 1, nullptr, nullptr),
                          "ncclLsaBarrierCreateRequirement"));
  EXPECT_TRUE(isNotServed(ncclGinBarrierCreateRequirement(comm, team, 1, nullptr, nullptr),
                          "ncclGinBarrierCreateRequirement"));
  EXPECT_TRUE(isNotServed(ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr), "ncclLLA2ACreateRequirement"));
  EXPECT_TRUE(
      isNotServed(ncclGinOutboxCreateRequirement(1, 1, nullptr, nullptr), "ncclGinOutboxCreateRequirement"));
  EXPECT_TRUE(isNotServed(ncclGinInboxA2ACreateRequirement(team, 1, 1, nullptr, nullptr),
                          "ncclGinInboxA2ACreateRequirement"));
  EXPECT_TRUE(refuses(ncclWinGetUserPtr(comm, nullptr, &pointer), ncclInvalidArgument, "is not a window"));
  EXPECT_TRUE(refuses(ncclPutSignal(&id, 1, ncclInt8, 0, nullptr, 0, 0, 0, 0, comm, nullptr),
                      ncclInvalidArgument, "is not a window"));
  ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  EXPECT_NCCL(ncclSetEncryption(&encryption));
  encryption.mode = NCCL_ENCRYPTION_MODE_PSK;
  EXPECT_TRUE(isNotServed(ncclSetEncryption(&encryption), "NCCL_ENCRYPTION_MODE_PSK"));
  destroyAll(comms);
}

TEST(NcclParameters, AreTheVariablesOfTheEnvironment) {
  const Variable set("NCCL_IB_TC", "41"), large("NCCL_SOCKET_IFNAME", "lo");
  ncclParamHandle_t handle = nullptr;
  ASSERT_NCCL(ncclParamBind(&handle, "NCCL_IB_TC"));
  int8_t small = 0;
  uint64_t number = 0;
  EXPECT_NCCL(ncclParamGetI8(handle, &small));
  EXPECT_EQ(small, 41);
  EXPECT_NCCL(ncclParamGetU64(handle, &number));
  EXPECT_EQ(number, 41u);
  const char* text = nullptr;
  EXPECT_NCCL(ncclParamGetStr(handle, &text));
  EXPECT_STREQ(text, "41");
  char room[2];
  int length = 0;
  EXPECT_TRUE(refuses(ncclParamGet(handle, room, sizeof room, &length), ncclInvalidArgument, "maxLen is 2"));
  ASSERT_NCCL(ncclParamGetParameter("NCCL_SOCKET_IFNAME", &text, &length));
  EXPECT_EQ(std::string(text, static_cast<size_t>(length)), "lo");
  EXPECT_TRUE(refuses(ncclParamBind(&handle, "NCCL_NOTHING"), ncclInvalidArgument, "NCCL_NOTHING"));
  const char** table = nullptr;
  ASSERT_NCCL(ncclParamGetAllParameterKeys(&table, &length));
  EXPECT_TRUE(std::set<std::string>(table, table + length).contains("NCCL_ALGO"));
  const Variable far("NCCL_IB_TC", "300");
  EXPECT_TRUE(refuses(ncclParamGetI8(handle, &small), ncclInvalidArgument, "NCCL_IB_TC=300"));
}

// By programs that keep it as a text.
TEST(NcclUniqueId, MayLoseItsLastByte) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  id.internal[NCCL_UNIQUE_ID_BYTES - 1] = 0;
  onEveryRank(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL(ncclCommInitRank(&comm, 2, id, rank));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
  ASSERT_NCCL(ncclGetUniqueId(&id));
  id.internal[NCCL_UNIQUE_ID_BYTES - 2] ^= 1;
  ncclComm_t comm = nullptr;
  EXPECT_TRUE(refuses(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument, "altered"));
}

// A program may use both faces at once.
TEST(NcclAndHoring, ShareOneEngine) {
  const std::vector<ncclComm_t> comms = meet(2);
  onEveryRank(2, [&](int rank) {
    float x = 1;
    const auto same = reinterpret_cast<horingComm_t>(comms[static_cast<size_t>(rank)]);
    EXPECT_EQ(horingAllReduce(&x, &x, 1, horingFloat, horingSum, same, nullptr), horingSuccess);
    EXPECT_EQ(x, 2);
  });
  destroyAll(comms);
}

}  // namespace
