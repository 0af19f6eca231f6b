// Making, sharing, losing and ending communicators.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>

#include "ranks.h"

namespace {

TEST(Lifecycle, RanksKnowWhoTheyAre) {
  for (const Meeting meeting : {Meeting::kInitAll, Meeting::kInitRank}) {
    const std::vector<horingComm_t> comms = makeCommunicators(3, meeting);
    for (int rank = 0; rank < 3; ++rank) {
      int count = 0, own = -1;
      ASSERT_HORING(horingCommCount(comms[static_cast<size_t>(rank)], &count));
      ASSERT_HORING(horingCommUserRank(comms[static_cast<size_t>(rank)], &own));
      EXPECT_EQ(count, 3);
      EXPECT_EQ(own, rank);
    }
    // One thread may end several, in any order.
    for (const int rank : {2, 0, 1}) EXPECT_HORING(horingCommDestroy(comms[static_cast<size_t>(rank)]));
  }
}

// Ranks without a color end the communicator like the others.
TEST(Lifecycle, EndingNoCommunicatorSucceeds) {
  EXPECT_HORING(horingCommFinalize(nullptr));
  EXPECT_HORING(horingCommDestroy(nullptr));
  EXPECT_HORING(horingCommAbort(nullptr));
}

TEST(Lifecycle, AnIdIsRefusedTheSecondTime) {
  horingUniqueId first, later;
  ASSERT_HORING(horingGetUniqueId(&first));
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingCommInitRank(&comm, 1, first, 0));
  EXPECT_HORING(horingCommDestroy(comm));
  ASSERT_HORING(horingGetUniqueId(&later));
  for (int ranks : {1, 2})
    EXPECT_TRUE(refuses(horingCommInitRank(&comm, ranks, first, 0), horingInvalidUsage,
                        "this unique ID was used already"));
  ASSERT_HORING(horingCommInitRank(&comm, 1, later, 0));
  EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Lifecycle, AMissingRankIsNamedAtTheDeadline) {
  Setting soon("HORING_INIT_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  onEveryRank(2, [&](int rank) {
    horingComm_t comm = nullptr;
    // Rank 1 of three stays away.
    EXPECT_EQ(horingCommInitRank(&comm, 3, id, rank * 2), horingTimeout);
    EXPECT_NE(std::string(horingGetLastError(nullptr)).find("rank 1"), std::string::npos)
        << horingGetLastError(nullptr);
  });
}

TEST(Lifecycle, ARankThatComesWhenTheOthersHaveFailedHearsWhy) {
  const Setting patience("HORING_INIT_TIMEOUT_MS", "10000");
  for (const bool blocks : {true, false}) {
    horingUniqueId id;
    ASSERT_HORING(horingGetUniqueId(&id));
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.blocking = blocks ? 1 : 0;
    std::vector<horingComm_t> comms(2, nullptr);
    // Both are rank 0, and all of this process host the rendezvous.
    std::thread others([&] {
      onEveryRank(2, [&](int rank) {
        EXPECT_EQ(horingCommInitRankConfig(&comms[static_cast<size_t>(rank)], 3, id, 0, &config),
                  blocks ? horingInvalidUsage : horingInProgress);
      });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // so that they have failed, as a rule
    horingComm_t late = nullptr;
    EXPECT_TRUE(
        refuses(horingCommInitRank(&late, 3, id, 2), horingInvalidUsage, "two processes joined as one rank"));
    others.join();
    for (const horingComm_t comm : comms)
      if (comm) {
        EXPECT_HORING(horingCommAbort(comm));
      }
  }
}

TEST(Lifecycle, AStoppedRankIsWaitedForOnlyUntilTheDeadline) {
  Setting soon("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  float x = 1;
  // Connecting is collective too, so both ranks make a first call.
  onEveryRank(2, [&](int rank) {
    float y = 1;
    EXPECT_HORING(
        horingAllReduce(&y, &y, 1, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
  });
  EXPECT_EQ(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[0], nullptr), horingTimeout);
  EXPECT_NE(std::string(horingGetLastError(comms[0])).find("rank 1"), std::string::npos)
      << horingGetLastError(comms[0]);
  horingResult_t sticky = horingSuccess;
  ASSERT_HORING(horingCommGetAsyncError(comms[0], &sticky));
  EXPECT_EQ(sticky, horingTimeout);
  int failed = 0;
  EXPECT_HORING(horingCommGetFailedRank(comms[0], &failed));
  EXPECT_EQ(failed, 1) << "who never called";
  EXPECT_EQ(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[0], nullptr), horingTimeout)
      << "errors stick";
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Ranks that are threads of one process read each other's buffers, and whose call has failed gets its own back.
TEST(Lifecycle, NobodyTouchesTheBuffersOfACallThatHasFailed) {
  constexpr int kRanks = 3, kTries = 12;
  constexpr size_t kCount = 8u << 20;
  std::vector<float*> buffers(kRanks);
  for (int i = 0; i < kTries; ++i) {
    const auto comms = makeCommunicators(kRanks, Meeting::kInitAll);
    for (float*& buffer : buffers) {
      buffer = static_cast<float*>(mmap(nullptr, kCount * sizeof(float), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
      ASSERT_NE(buffer, MAP_FAILED);
    }
    // Some end before they have begun, some after the rank that is aborted has done its part, some in between.
    std::thread ends([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(i));
      EXPECT_HORING(horingCommAbort(comms[0]));
    });
    onEveryRank(kRanks, [&](int rank) {
      float* const buffer = buffers[static_cast<size_t>(rank)];
      horingAllReduce(buffer, buffer, kCount, horingFloat32, horingSum, comms[static_cast<size_t>(rank)],
                      nullptr);
      munmap(buffer, kCount * sizeof(float));
    });
    ends.join();
    for (int rank = 1; rank < kRanks; ++rank)
      EXPECT_HORING(horingCommAbort(comms[static_cast<size_t>(rank)]));
  }
}

TEST(Lifecycle, AbortEndsARunningCollectiveAndItsPeersHear) {
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  std::atomic<bool> running{false};
  std::thread victim([&] {
    float x = 1;
    running = true;
    EXPECT_NE(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[0], nullptr), horingSuccess);
  });
  while (!running) std::this_thread::yield();
  EXPECT_HORING(horingCommAbort(comms[0]));
  victim.join();
  float x = 1;
  EXPECT_EQ(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[1], nullptr), horingRemoteError);
  EXPECT_NE(std::string(horingGetLastError(comms[1])).find("rank 0"), std::string::npos)
      << horingGetLastError(comms[1]);
  int failed = -1;
  EXPECT_HORING(horingCommGetFailedRank(comms[1], &failed));
  EXPECT_EQ(failed, 0);
  EXPECT_HORING(horingCommAbort(comms[1]));
  EXPECT_HORING(horingCommDestroy(comms[2]));
}

TEST(Lifecycle, TwoThreadsInOneCommunicatorAreRefused) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  const auto allReduce = [&](int rank, float* x, size_t count) {
    return horingAllReduce(x, x, count, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr);
  };
  std::thread first([&] {
    float x = 1;
    // The probe below may be inside just then.
    while (allReduce(0, &x, 1) == horingInvalidUsage) std::this_thread::yield();
  });
  // A probe that moves nothing; it is refused once the other thread is inside, where it stays until rank 1 comes.
  while (allReduce(0, nullptr, 0) != horingInvalidUsage) std::this_thread::yield();
  EXPECT_NE(std::string(horingGetLastError(nullptr)).find("another thread"), std::string::npos);
  EXPECT_EQ(horingCommDestroy(comms[0]), horingInvalidUsage);
  float x = 1;
  EXPECT_HORING(allReduce(1, &x, 1));
  first.join();
  EXPECT_EQ(x, 2.0f);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Lifecycle, AWatchdogMayLookAtAnyTime) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  std::atomic<bool> over{false};
  std::thread watchdog([&] {
    while (!over) {
      horingResult_t sticky = horingInternalError;
      EXPECT_HORING(horingCommGetAsyncError(comms[0], &sticky));
      EXPECT_EQ(sticky, horingSuccess);
    }
  });
  onEveryRank(2, [&](int rank) {
    for (int round = 0; round < 500; ++round) {
      float x = 1;
      ASSERT_HORING(
          horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
    }
  });
  over = true;
  watchdog.join();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// One rank of four, in a separate process: 0 on success.
int meetReduceAndLeave(int rank, const horingUniqueId& id) {
  horingComm_t comm = nullptr;
  if (horingCommInitRank(&comm, 4, id, rank) != horingSuccess) return 1;
  float x = 1;
  for (int round = 0; round < 3; ++round)
    if (horingAllReduce(&x, &x, 1, horingFloat, horingSum, comm, nullptr) != horingSuccess) return 2;
  return horingCommDestroy(comm) == horingSuccess ? 0 : 3;
}

TEST(Lifecycle, TheProcessThatMadeTheIdMayEndFirst) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  for (int round = 0; round < 10; ++round) {
    int channel[2];
    ASSERT_EQ(::pipe(channel), 0);
    std::vector<pid_t> children;
    for (int rank = 0; rank < 4; ++rank) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child > 0) {
        children.push_back(child);
        continue;
      }
      horingUniqueId id;
      if (rank == 0) {
        if (horingGetUniqueId(&id) != horingSuccess) ::_exit(4);
        for (int other = 1; other < 4; ++other)
          if (::write(channel[1], &id, sizeof id) != sizeof id) ::_exit(5);
      } else if (::read(channel[0], &id, sizeof id) != sizeof id) {
        ::_exit(6);
      }
      ::_exit(meetReduceAndLeave(rank, id));
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "round " << round;
    }
    ::close(channel[0]);
    ::close(channel[1]);
  }
}

TEST(Lifecycle, AForkedChildIsRefusedAndDisturbsNothing) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const pid_t child = ::fork();
  if (child == 0) {
    float x = 1;
    const bool refused =
        horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[0], nullptr) == horingInvalidUsage &&
        horingCommDestroy(comms[0]) == horingInvalidUsage && horingCommAbort(comms[0]) == horingInvalidUsage;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child was not refused";
  onEveryRank(2, [&](int rank) {
    float x = 1;
    ASSERT_HORING(
        horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(x, 2.0f);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// 0: all went well. 77: this process may not leave the network.
int initAllWithoutNetwork() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return 77;
  std::vector<horingComm_t> comms(3, nullptr);
  if (horingCommInitAll(comms.data(), 3, nullptr) != horingSuccess) {
    std::fprintf(stderr, "%s\n", horingGetLastError(nullptr));
    return 1;
  }
  std::atomic<int> wrong{0};
  onEveryRank(3, [&](int rank) {
    float x = 1;
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    if (horingAllReduce(&x, &x, 1, horingFloat, horingSum, comm, nullptr) != horingSuccess || x != 3) ++wrong;
    if (horingCommDestroy(comm) != horingSuccess) ++wrong;
  });
  return wrong;
}

TEST(Lifecycle, RanksOfOneProcessNeedNoNetwork) {
  if (horing::test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(initAllWithoutNetwork());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(status, 0);
}

TEST(Lifecycle, DescribesItselfAndItsMemory) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  char text[4096];
  ASSERT_HORING(horingCommDescribe(comms[0], text, sizeof text));
  EXPECT_NE(std::string(text).find("2 ranks"), std::string::npos) << text;
  ASSERT_HORING(horingCommDescribe(comms[0], text, 5));
  EXPECT_EQ(std::string(text).size(), 4u);
  onEveryRank(2, [&](int rank) {
    float x = 1;
    ASSERT_HORING(
        horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
  });
  uint64_t bytes = 0;
  ASSERT_HORING(horingCommMemoryBytes(comms[0], &bytes));
  EXPECT_GT(bytes, 0u);
  EXPECT_LT(bytes, 64u << 20);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Lifecycle, UnequalGroupsAreRightAndOverlapToo) {
  const std::vector<horingComm_t> comms = makeGroups({"a", "a", "b"});
  ASSERT_FALSE(HasFailure());
  char text[4096];
  ASSERT_HORING(horingCommDescribe(comms[0], text, sizeof text));
  EXPECT_NE(std::string(text).find("at 65536 KiB: all_reduce ho_ring"), std::string::npos) << text;
  EXPECT_EQ(std::string(text).find("instead"), std::string::npos) << text;
  onEveryRank(3, [&](int rank) {
    std::vector<double> x(5000, rank + 1.0);
    ASSERT_HORING(horingAllReduce(x.data(), x.data(), x.size(), horingDouble, horingSum,
                                  comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(x[4999], 6.0);
  });
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST(Finalize, WaitsForWhatIsQueuedAndRefusesWhatComesLater) {
  for (const Meeting meeting : {Meeting::kInitAll, Meeting::kInitRank}) {
    const std::vector<horingComm_t> comms = makeCommunicators(3, meeting);
    onEveryRank(3, [&](int rank) {
      const horingComm_t comm = comms[static_cast<size_t>(rank)];
      horingStream_t stream = nullptr;
      ASSERT_HORING(horingStreamCreate(&stream));
      std::vector<double> x(100'000, 1);
      ASSERT_HORING(horingAllReduce(x.data(), x.data(), x.size(), horingDouble, horingSum, comm, stream));
      ASSERT_HORING(horingCommFinalize(comm));
      EXPECT_EQ(x.back(), 3.0);
      EXPECT_HORING(horingStreamSynchronize(stream));
      EXPECT_TRUE(refuses(horingAllReduce(x.data(), x.data(), 1, horingDouble, horingSum, comm, nullptr),
                          horingInvalidUsage, "finalized"));
      horingComm_t child = nullptr;
      EXPECT_TRUE(refuses(horingCommSplit(comm, 0, 0, &child, nullptr), horingInvalidUsage, "finalized"));
      EXPECT_TRUE(refuses(horingCommFinalize(comm), horingInvalidArgument, "finalized before"));
      horingResult_t sticky = horingInternalError;
      EXPECT_HORING(horingCommGetAsyncError(comm, &sticky));
      EXPECT_EQ(sticky, horingSuccess);
      EXPECT_HORING(horingStreamDestroy(stream));
      EXPECT_HORING(horingCommDestroy(comm));
    });
  }
}

TEST(Finalize, TellsTheErrorThatSticks) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  EXPECT_HORING(horingCommAbort(comms[1]));
  int x = 1;
  EXPECT_EQ(horingAllReduce(&x, &x, 1, horingInt, horingSum, comms[0], nullptr), horingRemoteError);
  EXPECT_TRUE(refuses(horingCommFinalize(comms[0]), horingRemoteError, "rank 1"));
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

// Over shared memory it has taken with it what its peers would look for.
TEST(Disagreement, NamesARankThatLeftBeforeTheFirstCall) {
  for (const char* transport : {"shm", "socket"}) {
    const Setting only("HORING_TRANSPORTS", transport);
    const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
    EXPECT_HORING(horingCommDestroy(comms[0]));
    float x = 1;
    EXPECT_TRUE(
        refuses(horingAllReduce(&x, &x, 1, horingFloat, horingSum, comms[1], nullptr), horingRemoteError,
                "after 0 calls, and rank 1 waits in all_reduce #0: every rank must make all calls before "
                "it leaves"))
        << transport;
    EXPECT_HORING(horingCommDestroy(comms[1]));
  }
}

// Rank 0 is done at once and leaves; a rank that then makes a different call gets that error, not only that rank 0 has left.
TEST(Disagreement, IsReportedAlsoWhenTheOthersHaveLeft) {
  for (const Meeting meeting : {Meeting::kInitRank, Meeting::kInitAll}) {
    const std::vector<horingComm_t> comms = makeCommunicators(2, meeting);
    float data[4] = {};
    // Links come up when both are in a call.
    onEveryRank(2, [&](int rank) {
      float own[4] = {};
      EXPECT_HORING(horingBroadcast(own, own, 4, horingFloat, 0, comms[static_cast<size_t>(rank)], nullptr));
    });
    EXPECT_HORING(horingBroadcast(data, data, 4, horingFloat, 0, comms[0], nullptr));
    EXPECT_HORING(horingCommDestroy(comms[0]));
    EXPECT_TRUE(refuses(horingAllReduce(data, data, 4, horingFloat, horingSum, comms[1], nullptr),
                        horingInvalidUsage, "rank 0 called broadcast (4 x float32, root 0)"));
    EXPECT_HORING(horingCommDestroy(comms[1]));
  }
}

}  // namespace
