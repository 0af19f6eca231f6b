// Communicators that give their memory back and take it again.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "../open_descriptors.h"
#include "ranks.h"

namespace {

class Suspend : public testing::TestWithParam<Meeting> {
 protected:
  static constexpr int kRanks = 4;
  void SetUp() override { comms_ = makeCommunicators(kRanks, GetParam()); }
  void TearDown() override {
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }
  horingComm_t& comm(int rank) { return comms_[static_cast<size_t>(rank)]; }

  // In which every rank adds its number, as often as there are ranks.
  void expectWorks() {
    onEveryRank(kRanks, [&](int rank) {
      std::vector<float> sum(100'000, static_cast<float>(rank));
      ASSERT_HORING(
          horingAllReduce(sum.data(), sum.data(), sum.size(), horingFloat, horingSum, comm(rank), nullptr));
      EXPECT_TRUE(holds(sum.data(), sum.size(), [](size_t) { return 6.0f; }));
    });
  }
  void suspendAll() {
    onEveryRank(kRanks, [&](int rank) { EXPECT_HORING(horingCommSuspend(comm(rank), HORING_SUSPEND_MEM)); });
  }
  void resumeAll() {
    onEveryRank(kRanks, [&](int rank) { EXPECT_HORING(horingCommResume(comm(rank))); });
  }
  uint64_t bytes(int rank) {
    uint64_t held = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &held));
    return held;
  }
  bool suspended(int rank) {
    int is = -1;
    EXPECT_HORING(horingCommIsSuspended(comm(rank), &is));
    EXPECT_TRUE(is == 0 || is == 1);
    return is == 1;
  }

  std::vector<horingComm_t> comms_;
};

TEST_P(Suspend, GivesAllMemoryBackAndResumeTakesItAgain) {
  for (int round = 0; round < 2; ++round) {
    expectWorks();
    EXPECT_FALSE(suspended(0));
    EXPECT_GT(bytes(0), 0u);
    const int descriptors = horing::test::openDescriptors();
    suspendAll();
    EXPECT_TRUE(suspended(0));
    EXPECT_EQ(bytes(0), 0u);
    EXPECT_LT(horing::test::openDescriptors(), descriptors - kRanks) << "connections are still there";
    resumeAll();
  }
  EXPECT_FALSE(suspended(0));
  expectWorks();
}

TEST_P(Suspend, RefusesOperationsMeanwhile) {
  suspendAll();
  int x = 1;
  horingComm_t child = nullptr;
  EXPECT_TRUE(refuses(horingAllReduce(&x, &x, 1, horingInt, horingSum, comm(0), nullptr), horingInvalidUsage,
                      "comm is suspended: call horingCommResume"));
  EXPECT_TRUE(refuses(horingCommSplit(comm(0), 0, 0, &child, nullptr), horingInvalidUsage, "suspended"));
  EXPECT_TRUE(
      refuses(horingCommSuspend(comm(0), HORING_SUSPEND_MEM), horingInvalidUsage, "comm is suspended"));
  horingResult_t error = horingInternalError;
  EXPECT_HORING(horingCommGetAsyncError(comm(0), &error));
  EXPECT_EQ(error, horingSuccess);
  resumeAll();
  expectWorks();
}

TEST_P(Suspend, WorksInAGroupOfOneThread) {
  ASSERT_HORING(horingGroupStart());
  for (const horingComm_t each : comms_) EXPECT_HORING(horingCommSuspend(each, HORING_SUSPEND_MEM));
  ASSERT_HORING(horingGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(suspended(rank));
  ASSERT_HORING(horingGroupStart());
  for (const horingComm_t each : comms_) EXPECT_HORING(horingCommResume(each));
  ASSERT_HORING(horingGroupEnd());
  expectWorks();
}

TEST_P(Suspend, KeepsWhatBelongsToTheHandle) {
  std::vector<horingRedOp_t> twice(kRanks);
  std::vector<horingStream_t> streams(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    float two = 2;
    ASSERT_HORING(horingStreamCreate(&streams[static_cast<size_t>(rank)]));
    ASSERT_HORING(horingRedOpCreatePreMulSum(&twice[static_cast<size_t>(rank)], &two, horingFloat,
                                             horingScalarHostImmediate, comm(rank)));
    float before = 1;
    ASSERT_HORING(horingAllReduce(&before, &before, 1, horingFloat, horingSum, comm(rank),
                                  streams[static_cast<size_t>(rank)]));
    // Waits for that one.
    ASSERT_HORING(horingCommSuspend(comm(rank), HORING_SUSPEND_MEM));
    EXPECT_EQ(before, kRanks);
  });
  resumeAll();
  onEveryRank(kRanks, [&](int rank) {
    float sum = 1;
    ASSERT_HORING(horingAllReduce(&sum, &sum, 1, horingFloat, twice[static_cast<size_t>(rank)], comm(rank),
                                  streams[static_cast<size_t>(rank)]));
    ASSERT_HORING(horingStreamDestroy(streams[static_cast<size_t>(rank)]));
    EXPECT_EQ(sum, 2 * kRanks);
  });
}

TEST_P(Suspend, MayEndMeanwhile) {
  suspendAll();
  EXPECT_HORING(horingCommAbort(std::exchange(comm(1), nullptr)));
  for (horingComm_t& each : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(each, nullptr)));
}

TEST_P(Suspend, ChecksArguments) {
  int is = 0;
  EXPECT_TRUE(refuses(horingCommSuspend(comm(0), 0), horingInvalidArgument, "flags is 0"));
  EXPECT_TRUE(refuses(horingCommSuspend(nullptr, HORING_SUSPEND_MEM), horingInvalidArgument, "comm is NULL"));
  EXPECT_TRUE(refuses(horingCommResume(nullptr), horingInvalidArgument, "comm is NULL"));
  EXPECT_TRUE(refuses(horingCommResume(comm(0)), horingInvalidUsage, "comm is not suspended"));
  EXPECT_TRUE(refuses(horingCommIsSuspended(comm(0), nullptr), horingInvalidArgument, "suspended is NULL"));
  EXPECT_TRUE(refuses(horingCommIsSuspended(nullptr, &is), horingInvalidArgument, "comm is NULL"));
  expectWorks();
}

TEST_P(Suspend, RefusesWhileBuffersAreRegistered) {
  void *memory = nullptr, *handle = nullptr;
  ASSERT_HORING(horingMemAlloc(&memory, 4096));
  ASSERT_HORING(horingCommRegister(comm(0), memory, 4096, &handle));
  ASSERT_NE(handle, nullptr);
  EXPECT_TRUE(
      refuses(horingCommSuspend(comm(0), HORING_SUSPEND_MEM), horingInvalidUsage, "buffers are registered"));
  EXPECT_HORING(horingCommDeregister(comm(0), handle));
  suspendAll();
  resumeAll();
  expectWorks();
  EXPECT_HORING(horingMemFree(memory));
}

INSTANTIATE_TEST_SUITE_P(Ways, Suspend, testing::Values(Meeting::kInitRank, Meeting::kInitAll),
                         [](const auto& way) { return way.param == Meeting::kInitRank ? "ById" : "All"; });

TEST(SuspendedRanks, NameTheOneThatDoesNotResume) {
  const Setting soon("HORING_INIT_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  onEveryRank(2, [&](int rank) {
    EXPECT_HORING(horingCommSuspend(comms[static_cast<size_t>(rank)], HORING_SUSPEND_MEM));
  });
  EXPECT_TRUE(refuses(horingCommResume(comms[0]), horingTimeout, "rank 1 of 2 did not arrive"));
  int x = 1;
  EXPECT_TRUE(refuses(horingAllReduce(&x, &x, 1, horingInt, horingSum, comms[0], nullptr), horingTimeout,
                      "did not arrive"));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// A watchdog that asks for errors all the time.
TEST(SuspendedRanks, MayBeAskedByOtherThreads) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  std::atomic<bool> ends{false};
  std::thread watchdog([&] {
    while (!ends) {
      horingResult_t error = horingInternalError;
      const horingResult_t asked = horingCommGetAsyncError(comms[0], &error);
      EXPECT_EQ(asked, horingSuccess) << horingGetLastError(nullptr);
      EXPECT_TRUE(error == horingSuccess || error == horingInProgress) << error;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  onEveryRank(2, [&](int rank) {
    for (int round = 0; round < 5; ++round) {
      EXPECT_HORING(horingCommSuspend(comms[static_cast<size_t>(rank)], HORING_SUSPEND_MEM));
      EXPECT_HORING(horingCommResume(comms[static_cast<size_t>(rank)]));
    }
  });
  ends = true;
  watchdog.join();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

constexpr auto kLongest = std::chrono::seconds(10);

// Returns when another thread is suspending comm.
void awaitSuspension(horingComm_t comm) {
  const auto until = std::chrono::steady_clock::now() + kLongest;
  int count = 0;
  while (horingCommCount(comm, &count) == horingSuccess) ASSERT_LT(std::chrono::steady_clock::now(), until);
  EXPECT_NE(std::string(horingGetLastError(nullptr)).find("comm is suspended"), std::string::npos)
      << horingGetLastError(nullptr);
}

// At any moment of a suspension: at one that differs from round to round, and once the communicator has left its ranks.
TEST(SuspendedRanks, MayBeEndedWhileTheySuspend) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int round = 0; std::chrono::steady_clock::now() < until; ++round) {
    const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
    std::thread other([&] {
      if (round % 3 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(round * 17 % 2000));
      } else {
        awaitSuspension(comms[0]);
      }
      EXPECT_HORING(round % 3 == 1 ? horingCommDestroy(comms[0]) : horingCommAbort(comms[0]));
    });
    // Once rank 0 has left its ranks, rank 1 is suspended, too, unless rank 0 is gone before rank 1 has its part of the new rendezvous.
    onEveryRank(2, [&](int rank) {
      const horingResult_t suspended =
          horingCommSuspend(comms[static_cast<size_t>(rank)], HORING_SUSPEND_MEM);
      if (round % 3 != 0 && rank == 1 && suspended != horingSuccess) {
        EXPECT_EQ(suspended, horingInvalidUsage);
        EXPECT_NE(std::string(horingGetLastError(nullptr)).find("its communicator was not made in time"),
                  std::string::npos)
            << horingGetLastError(nullptr);
      }
    });
    other.join();
    EXPECT_HORING(horingCommAbort(comms[1]));
  }
}

TEST(SuspendedRanks, MayBeAbortedWhileTheyResume) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
    onEveryRank(2, [&](int rank) {
      EXPECT_HORING(horingCommSuspend(comms[static_cast<size_t>(rank)], HORING_SUSPEND_MEM));
    });
    const auto begin = std::chrono::steady_clock::now();
    // Rank 1 does not.
    std::thread other([&] { EXPECT_NE(horingCommResume(comms[0]), horingSuccess); });
    horingResult_t state = horingSuccess;
    while (round % 2 == 0 && state == horingSuccess)
      if (horingCommGetAsyncError(comms[0], &state) != horingSuccess) break;
    if (round == 0) {
      int count = 0;
      EXPECT_TRUE(refuses(horingCommCount(comms[0], &count), horingInvalidArgument, "by horingCommResume"));
    }
    EXPECT_HORING(horingCommAbort(comms[0]));
    other.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kLongest) << "waited for rank 1";
    EXPECT_HORING(horingCommDestroy(comms[1]));
  }
}

}  // namespace
