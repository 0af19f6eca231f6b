// horingConfig_t, and meeting with several IDs.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

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
  const Case cases[] = {
      {[](horingConfig_t& c) { c.size -= 1; }, "HORING_CONFIG_INITIALIZER"},
      {[](horingConfig_t& c) { c.magic = 1; }, "magic 0x1"},
      {[](horingConfig_t& c) { c.blocking = 2; }, "config.blocking is 2"},
      {[](horingConfig_t& c) { c.netName = "token ring"; }, "config.netName is 'token ring'"},
      {[](horingConfig_t& c) { c.maxCTAs = 1025; }, "config.maxCTAs is 1025"},
      {[](horingConfig_t& c) { c.trafficClass = 256; }, "config.trafficClass is 256"},
      {[](horingConfig_t& c) { c.minCTAs = 8, c.maxCTAs = 4; }, "config.minCTAs is 8"},
      {[](horingConfig_t& c) { c.splitShare = 2; }, "config.splitShare is 2"},
      {[](horingConfig_t& c) { c.graphUsageMode = 3; }, "config.graphUsageMode is 3"},
      {[](horingConfig_t& c) { c.nvlsHostMode = -1; }, "config.nvlsHostMode is -1"}};
  for (const Case& one : cases) {
    horingComm_t comm = nullptr;
    EXPECT_TRUE(refuses(initWith(one.change, &comm), horingInvalidArgument, one.named));
    EXPECT_EQ(comm, nullptr);
  }
}

TEST(Settings, AlsoOfOptions) {
  struct Case {
    void (*change)(horingOptions_t&);
    const char* named;
  };
  const Case cases[] = {{[](horingOptions_t& o) { o.size -= 1; }, "HORING_OPTIONS_INITIALIZER"},
                        {[](horingOptions_t& o) { o.magic = 1; }, "options has size 32 and magic 0x1"},
                        {[](horingOptions_t& o) { o.reproducible = 2; }, "options.reproducible is 2"},
                        {[](horingOptions_t& o) { o.timeoutMs = -1; }, "options.timeoutMs is -1"},
                        {[](horingOptions_t& o) { o.initTimeoutMs = 86'400'001; }, "options.initTimeoutMs"},
                        {[](horingOptions_t& o) { o.gpuKernels = -1; }, "options.gpuKernels is -1"}};
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingComm_t comm = nullptr;
  for (const Case& one : cases) {
    horingOptions_t options = HORING_OPTIONS_INITIALIZER;
    one.change(options);
    EXPECT_TRUE(refuses(horingCommInitRankOptions(&comm, 1, id, 0, nullptr, &options), horingInvalidArgument,
                        one.named));
    EXPECT_EQ(comm, nullptr);
  }
  ASSERT_HORING(horingCommInitRankOptions(&comm, 1, id, 0, nullptr, nullptr));
  EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Settings, OfOptionsSayHowLongRanksAreWaitedFor) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  horingOptions_t options = HORING_OPTIONS_INITIALIZER;
  options.initTimeoutMs = horing::test::kShortDeadlineMs;
  horingComm_t comm = nullptr;
  EXPECT_TRUE(refuses(horingCommInitRankOptions(&comm, 2, id, 0, nullptr, &options), horingTimeout,
                      (std::to_string(horing::test::kShortDeadlineMs) + " ms").c_str()));
}

TEST(Settings, OfAThreadHoldForWhatItMakes) {
  horingOptions_t options = HORING_OPTIONS_INITIALIZER;
  options.timeoutMs = -1;
  EXPECT_TRUE(
      refuses(horingSetThreadOptions(&options, nullptr), horingInvalidArgument, "options.timeoutMs is -1"));
  options.timeoutMs = horing::test::kShortDeadlineMs;
  options.initTimeoutMs = horing::test::kShortDeadlineMs;
  ASSERT_HORING(horingSetThreadOptions(&options, nullptr));
  // Of every function: what waits is over soon.
  horingUniqueId id;
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingGetUniqueId(&id));
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 2, id, 0), horingTimeout, "rank 1 of 2"));
  ASSERT_HORING(horingGetUniqueId(&id));
  EXPECT_TRUE(
      refuses(horingCommInitRankScalable(&comm, 2, 0, 1, &id, nullptr), horingTimeout, "rank 1 of 2"));
  std::vector<horingComm_t> all(2), others;
  ASSERT_HORING(horingCommInitAll(all.data(), 2, nullptr));
  // And of no other thread.
  std::thread([&] { others = makeCommunicators(2, Meeting::kInitAll); }).join();
  horingOptions_t former;
  ASSERT_HORING(horingSetThreadOptions(nullptr, &former));
  EXPECT_EQ(former.timeoutMs, options.timeoutMs);
  ASSERT_HORING(horingSetThreadOptions(nullptr, &former));
  EXPECT_EQ(former.timeoutMs, HORING_CONFIG_UNDEF_INT);
  float x = 1;
  const auto add = [&x](horingComm_t to) {
    return horingAllReduce(&x, &x, 1, horingFloat, horingSum, to, nullptr);
  };
  EXPECT_TRUE(refuses(add(all[0]), horingTimeout, "rank 1"));
  for (const horingComm_t each : all) EXPECT_HORING(horingCommAbort(each));
  onEveryRank(2, [&](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 3 * horing::test::kShortDeadlineMs));
    float own = 1;
    EXPECT_HORING(
        horingAllReduce(&own, &own, 1, horingFloat, horingSum, others[static_cast<size_t>(rank)], nullptr));
  });
  for (const horingComm_t each : others) EXPECT_HORING(horingCommDestroy(each));
}

// A rank that comes late, while another's deadline would have passed twice: none counts for what begins after it was taken away.
TEST(Settings, MayGrantEveryOperationAllTime) {
  const Setting soon("HORING_TIMEOUT_MS", std::to_string(horing::test::kShortDeadlineMs).c_str());
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  for (const horingComm_t each : comms) ASSERT_HORING(horingCommSetTimeout(each, 0));
  onEveryRank(2, [&](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 2 * horing::test::kShortDeadlineMs));
    float x = 1;
    EXPECT_HORING(
        horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(x, 2);
  });
  for (const horingComm_t each : comms) EXPECT_HORING(horingCommDestroy(each));
}

TEST(Settings, SayTheTimeoutAsItIsNow) {
  const Setting from_environment("HORING_TIMEOUT_MS", 70'000);
  const std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  const auto timeout = [](horingComm_t comm) {
    int ms = -1;
    EXPECT_HORING(horingCommGetTimeout(comm, &ms));
    return ms;
  };
  EXPECT_EQ(timeout(comms[0]), 70'000);
  for (const int ms : {0, 86'400'000, 300}) {
    ASSERT_HORING(horingCommSetTimeout(comms[0], ms));
    EXPECT_EQ(timeout(comms[0]), ms);
  }
  horingComm_t child = nullptr;  // as its parent's is then
  ASSERT_HORING(horingCommSplit(comms[0], 0, 0, &child, nullptr));
  ASSERT_HORING(horingCommSetTimeout(comms[0], 0));
  EXPECT_EQ(timeout(child), 300);
  EXPECT_TRUE(refuses(horingCommGetTimeout(child, nullptr), horingInvalidArgument, "timeoutMs is NULL"));
  int ms = 0;
  EXPECT_TRUE(refuses(horingCommGetTimeout(nullptr, &ms), horingInvalidArgument, "comm is NULL"));
  EXPECT_HORING(horingCommDestroy(child));
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

TEST(Settings, HaveDefaultsThatAProgramMaySet) {
  EXPECT_TRUE(refuses(horingSetDefault("HORING_COLOUR", "red"), horingInvalidArgument, "'HORING_COLOUR'"));
  EXPECT_TRUE(refuses(horingSetDefault(nullptr, ""), horingInvalidArgument, "name is NULL"));
  horingUniqueId id;
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingSetDefault("HORING_ALGO", "nothing"));
  {
    const Setting environment("HORING_ALGO", "ring");  // counts
    ASSERT_HORING(horingGetUniqueId(&id));
    ASSERT_HORING(horingCommInitRank(&comm, 1, id, 0));
    EXPECT_HORING(horingCommDestroy(comm));
  }
  ASSERT_HORING(horingGetUniqueId(&id));
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 1, id, 0), horingInvalidArgument, "HORING_ALGO=nothing"));
  ASSERT_HORING(horingSetDefault("HORING_ALGO", nullptr));
  ASSERT_HORING(horingCommInitRank(&comm, 1, id, 0));
  EXPECT_HORING(horingCommDestroy(comm));
}

std::string described(horingComm_t comm) {
  char text[4096] = "";
  EXPECT_HORING(horingCommDescribe(comm, text, sizeof text));
  return text;
}

// What programs pass that were compiled with another header: a shorter struct, or one with more at its end.
horingResult_t initWithBytes(std::vector<unsigned char> bytes, horingComm_t* comm) {
  auto* const config = reinterpret_cast<horingConfig_t*>(bytes.data());
  config->size = bytes.size();
  horingUniqueId id;
  EXPECT_HORING(horingGetUniqueId(&id));
  return horingCommInitRankConfig(comm, 1, id, 0, config);
}
std::vector<unsigned char> configBytes(const horingConfig_t& config, size_t size) {
  std::vector<unsigned char> bytes(size);
  std::memcpy(bytes.data(), &config, std::min(size, sizeof config));
  return bytes;
}

TEST(Settings, OfOlderAndNewerHeadersAreRead) {
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.commName = "older";
  config.collnetEnable = 2;  // beyond the fields of an older header
  const size_t older = offsetof(horingConfig_t, collnetEnable);
  horingComm_t comm = nullptr;
  ASSERT_HORING(initWithBytes(configBytes(config, older), &comm));
  EXPECT_EQ(described(comm).find("older: 1 ranks"), 0u) << described(comm);
  EXPECT_HORING(horingCommDestroy(comm));

  const horingConfig_t usual = HORING_CONFIG_INITIALIZER;
  std::vector<unsigned char> newer = configBytes(usual, sizeof usual + 16);
  const int undefined = HORING_CONFIG_UNDEF_INT, one = 1;
  std::memcpy(&newer[sizeof usual + 8], &undefined, sizeof undefined);
  ASSERT_HORING(initWithBytes(newer, &comm));
  EXPECT_HORING(horingCommDestroy(comm));
  std::memcpy(&newer[sizeof usual + 8], &one, sizeof one);
  comm = nullptr;
  EXPECT_TRUE(refuses(initWithBytes(newer, &comm), horingInvalidArgument, "sets something at byte 128"));
  EXPECT_TRUE(refuses(initWithBytes(configBytes(usual, 8192), &comm), horingInvalidArgument, "size 8192"));
  EXPECT_TRUE(refuses(initWithBytes(configBytes(usual, 12), &comm), horingInvalidArgument, "size 12"));
  EXPECT_EQ(comm, nullptr);
}

TEST(Settings, PortsToListenOnAreThoseOfTheRange) {
  horingUniqueId id;
  {
    const Setting bad("HORING_PORTS", "5");
    EXPECT_TRUE(refuses(horingGetUniqueId(&id), horingInvalidArgument, "HORING_PORTS=5: expected"));
  }
  const Setting ports("HORING_PORTS", "23460-23479"), transports("HORING_TRANSPORTS", "socket");
  // Each rank listens for its peers and has a port to shrink, and two more are where the ranks meet.
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  onEveryRank(3, [&](int rank) {
    float x = 1;
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_HORING(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comm, nullptr));
    EXPECT_EQ(x, 3);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  const Setting few("HORING_PORTS", "23460-23460");
  EXPECT_TRUE(refuses(horingGetUniqueId(&id), horingSystemError, "HORING_PORTS=23460-23460"));
}

// TCP ports on which this process listens.
std::set<unsigned> listeningPorts() {
  std::set<std::string> own;
  std::error_code gone;  // descriptors come and go
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    own.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  std::set<unsigned> ports;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(path);
    for (std::string line; std::getline(table, line);) {
      unsigned port = 0, state = 0;
      unsigned long inode = 0;
      if (std::sscanf(line.c_str(), " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*d %*d %lu", &port,
                      &state, &inode) == 3 &&
          state == 10 && own.contains("socket:[" + std::to_string(inode) + "]"))
        ports.insert(port);
    }
  }
  return ports;
}

TEST(Settings, AlsoAShrinkKeepsToTheRange) {
  const Setting ports("HORING_PORTS", "23480-23499"), transports("HORING_TRANSPORTS", "shm");
  const Setting soon("HORING_INIT_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  const std::set<unsigned> before = listeningPorts();
  // Rank 1 never arrives, so rank 0 waits, as the host of a rendezvous to which ranks may return.
  std::atomic<bool> waits{true};
  std::thread host([&] {
    int excluded = 2;
    horingComm_t rest = nullptr;
    EXPECT_EQ(horingCommShrink(comms[0], &excluded, 1, &rest, nullptr, HORING_SHRINK_DEFAULT), horingTimeout);
    waits = false;
  });
  std::set<unsigned> opened;
  while (waits && opened.size() < 2) {
    opened = listeningPorts();
    for (const unsigned port : before) opened.erase(port);
  }
  host.join();
  EXPECT_EQ(opened.size(), 2u);
  for (const unsigned port : opened) EXPECT_TRUE(port >= 23480 && port <= 23499) << port;
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Settings, WhatMeansNothingHereIsIgnored) {
  horingComm_t comm = nullptr;
  ASSERT_HORING(initWith(
      [](horingConfig_t& c) {
        c.blocking = 1;
        c.cgaClusterSize = c.minCTAs = c.splitShare = c.collnetEnable = 1;
        c.CTAPolicy = c.shrinkShare = c.nvlsCTAs = c.nChannelsPerNetPeer = c.nvlinkCentricSched = 1;
      },
      &comm));
  EXPECT_HORING(horingCommDestroy(comm));
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  ASSERT_HORING(horingCommInitRankConfig(&comm, 1, id, 0, nullptr));
  EXPECT_HORING(horingCommDestroy(comm));
}

// These algorithms need groups of one size; where groups differ, others run instead.
TEST(Settings, ForceAlgorithmsThatUnequalGroupsCannotRun) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 3001;
  for (const char* algorithm : {"ho_leaders", "ho_leaders_split", "ho_ordered"}) {
    SCOPED_TRACE(algorithm);
    const Setting forced("HORING_ALGO", algorithm);
    const std::vector<horingComm_t> comms = makeGroups({"a", "b", "a", "a"});
    ASSERT_FALSE(testing::Test::HasFailure());
    onEveryRank(kRanks, [&](int rank) {
      const horingComm_t comm = comms[static_cast<size_t>(rank)];
      const auto sum = [](size_t i) { return element(0, i) + element(1, i) + element(2, i) + element(3, i); };
      const std::vector<float> in = filled(rank, kCount * kRanks);
      std::vector<float> out(kCount * kRanks);
      EXPECT_HORING(horingAllReduce(in.data(), out.data(), kCount, horingFloat, horingSum, comm, nullptr));
      EXPECT_TRUE(holds(out.data(), kCount, sum)) << "all-reduce";
      EXPECT_HORING(
          horingReduceScatter(in.data(), out.data(), kCount, horingFloat, horingSum, comm, nullptr));
      const size_t first = kCount * static_cast<size_t>(rank);
      EXPECT_TRUE(holds(out.data(), kCount, [&](size_t i) { return sum(first + i); })) << "reduce-scatter";
      EXPECT_HORING(horingAllGather(in.data(), out.data(), kCount, horingFloat, comm, nullptr));
      EXPECT_TRUE(holds(out.data(), out.size(), [&](size_t i) {
        return element(static_cast<int>(i / kCount), i % kCount);
      })) << "all-gather";
      EXPECT_HORING(horingReduce(in.data(), out.data(), kCount, horingFloat, horingSum, 1, comm, nullptr));
      EXPECT_TRUE(rank != 1 || holds(out.data(), kCount, sum)) << "reduce";
    });
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  }
}

TEST(Settings, NameANetwork) {
  // In place of another one, which alone would not do here.
  const Setting transports("HORING_TRANSPORTS", "verbs");
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  onEveryRank(2, [&](int rank) {
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.netName = "Socket";
    horingComm_t made = nullptr;
    ASSERT_HORING(horingCommInitRankConfig(&made, 2, id, rank, &config));
    float x = 1;
    EXPECT_HORING(horingAllReduce(&x, &x, 1, horingFloat, horingSum, made, nullptr));
    EXPECT_EQ(x, 2);
    EXPECT_HORING(horingCommDestroy(made));
  });
}

TEST(Settings, NameANetworkThatIsNotThere) {
  if (std::filesystem::exists("/sys/class/infiniband") && !std::filesystem::is_empty("/sys/class/infiniband"))
    GTEST_SKIP() << "it is there";
  const Setting transports("HORING_TRANSPORTS", "socket");
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  onEveryRank(2, [&](int rank) {
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.netName = "ib";
    horingComm_t made = nullptr;
    EXPECT_TRUE(refuses(horingCommInitRankConfig(&made, 2, id, rank, &config), horingSystemError, "RDMA"));
  });
}

TEST(Settings, NameAndDeadlineHoldForTheCommunicatorAndItsChildren) {
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  std::vector<horingComm_t> parents(2), named(2);
  onEveryRank(2, [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.commName = "trainers";
    horingOptions_t options = HORING_OPTIONS_INITIALIZER;
    options.timeoutMs = horing::test::kShortDeadlineMs;
    ASSERT_HORING(horingCommInitRankOptions(&parents[at], 2, id, rank, &config, &options));
    horingComm_t child = nullptr;
    ASSERT_HORING(horingCommSplit(parents[at], 0, 0, &child, nullptr));
    EXPECT_EQ(described(child).find("trainers: 2 ranks"), 0u) << described(child);
    EXPECT_HORING(horingCommDestroy(child));
    config.commName = "others";
    ASSERT_HORING(horingCommSplit(parents[at], 0, 0, &named[at], &config));
    EXPECT_EQ(described(named[at]).find("others: 2 ranks"), 0u) << described(named[at]);
  });
  // Rank 1 does not call.
  for (const auto& comms : {parents, named}) {
    float x = 1;
    EXPECT_TRUE(refuses(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[0], nullptr), horingTimeout,
                        (std::to_string(horing::test::kShortDeadlineMs) + " ms").c_str()));
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
  horingComm_t comm = nullptr;
  // No process listens for the unused ID.
  EXPECT_TRUE(refuses(horingCommInitRank(&comm, 1, ids[1], 0), horingInvalidUsage,
                      "this unique ID was used already"));
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
