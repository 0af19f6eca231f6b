// Sends and receives of ranks that made their communicator with a GPU current each: kernels carry them from the first on. Emulated.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_processes.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;

// Processes.
class GpuFirstMessages : public GpuProcesses {
 protected:
  void join(const Membership& membership) override {
    std::optional<CurrentGpu> current;
    if (is_current_) current.emplace(cuda_, membership.rank);
    GpuProcesses::join(membership);
  }
  // By kernels alone.
  void expectKernels() {
    const int launches = cuda_.launches();
    cuda_.fail("cuStreamWaitValue32", 999);  // what hosts carry on streams
    exchangeMessages({});
    EXPECT_GT(cuda_.launches(), launches);
    exchangeMessagesTwice();
    cuda_.fail(nullptr, 0);
  }
  // They use kernels to copy, but not for calls that are complete on return.
  void expectHosts() {
    const int launches = cuda_.launches();
    exchangeMessages({});
    EXPECT_EQ(cuda_.launches(), launches);
    exchangeMessagesTwice();
  }
  // Of the ranks but the last, in children.
  void expectKernelsWithoutTheLast() {
    const horingComm_t parent = comm_;
    int last = me_.ranks - 1;
    const bool is_last = me_.rank == last;
    const auto expectKernelsOfChild = [&](horingComm_t child) {
      comm_ = child;
      --me_.ranks;
      expectKernels();
      EXPECT_HORING(horingCommDestroy(child));
      ++me_.ranks;
      comm_ = parent;
    };
    horingComm_t child = nullptr;
    ASSERT_HORING(horingCommSplit(parent, is_last ? HORING_SPLIT_NOCOLOR : 0, 0, &child, nullptr));
    if (is_last) return;
    expectKernelsOfChild(child);
    ASSERT_HORING(horingCommShrink(parent, &last, 1, &child, nullptr, HORING_SHRINK_DEFAULT));
    expectKernelsOfChild(child);
  }

  bool is_current_ = true;  // a GPU, where the communicator is made
};

TEST_F(GpuFirstMessages, DISABLED_OfOneNode) {
  join(Membership::fromEnvironment());
  expectKernels();
}

TEST_F(GpuFirstMessages, GoByKernelsBeforeAnyCollective) {
  const int live = cuda_.live();
  for (const int ranks : {2, 4}) {
    host("GpuFirstMessages.DISABLED_OfOneNode", ranks);
    expectKernels();
    expectOthersEndWell();
  }
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(GpuFirstMessages, DISABLED_OfTwoNodes) {
  joinTwoNodes();
  expectKernels();
}

TEST_F(GpuFirstMessages, GoByKernelsToAnotherNode) {
  hostTwoNodes("GpuFirstMessages.DISABLED_OfTwoNodes");
  expectKernels();
  expectOthersEndWell();
}

TEST_F(GpuFirstMessages, DISABLED_BesideARankWithoutAGpu) {
  const Membership membership = Membership::fromEnvironment();
  is_current_ = membership.rank != 1;
  join(membership);
  expectHosts();
  EXPECT_HORING(add(GpuVector<float>(cuda_, me_.rank, {1}), 1, nullptr));
  expectKernels();
}

TEST_F(GpuFirstMessages, GoByHostsWhereOneRankHasNoGpuCurrent) {
  host("GpuFirstMessages.DISABLED_BesideARankWithoutAGpu", 4);
  EXPECT_LT(memoryBytes(), 1U << 20) << "nothing is taken before an operation on a GPU";
  expectHosts();
  EXPECT_HORING(add(GpuVector<float>(cuda_, 0, {1}), 1, nullptr));
  expectKernels();
  expectOthersEndWell();
}

TEST_F(GpuFirstMessages, DISABLED_WithoutMemory) {
  const Membership membership = Membership::fromEnvironment();
  if (membership.rank == 1) cuda_.fail("cuMemAlloc", 2);
  join(membership);
  cuda_.fail(nullptr, 0);
  expectHosts();
}

TEST_F(GpuFirstMessages, GoByHostsWhereOneRankHasNoMemoryForKernels) {
  testing::internal::CaptureStderr();
  host("GpuFirstMessages.DISABLED_WithoutMemory", 4);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      log.find("operations on GPUs are slow, for they go through memory of the host: rank 1: allocating"),
      std::string::npos)
      << log;
  expectHosts();
  expectOthersEndWell();
}

TEST_F(GpuFirstMessages, DISABLED_OfAChild) {
  join(Membership::fromEnvironment());
  expectKernelsWithoutTheLast();
}

// The child is made where no GPU is current.
TEST_F(GpuFirstMessages, GoByKernelsInAChildOnTheGpuOfItsParent) {
  host("GpuFirstMessages.DISABLED_OfAChild", 4);
  expectKernelsWithoutTheLast();
  expectOthersEndWell();
}

TEST_F(GpuFirstMessages, DISABLED_OfAChildOfOneThatLearnedItsGpu) {
  is_current_ = false;
  join(Membership::fromEnvironment());
  EXPECT_HORING(add(GpuVector<float>(cuda_, me_.rank, {1}), 1, nullptr));
  expectKernelsWithoutTheLast();
}

TEST_F(GpuFirstMessages, GoByKernelsInAChildOnTheGpuThatItsParentWorkedOn) {
  is_current_ = false;
  host("GpuFirstMessages.DISABLED_OfAChildOfOneThatLearnedItsGpu", 4);
  EXPECT_HORING(add(GpuVector<float>(cuda_, 0, {1}), 1, nullptr));
  expectKernelsWithoutTheLast();
  expectOthersEndWell();
}

// The making comes to no end where memory of another process is to be written.
TEST_F(GpuFirstMessages, DISABLED_HangsWhileAllAgree) {
  const std::atomic<bool> never{false};
  cuda_.holdCopies(&never);
  const Membership membership = Membership::fromEnvironment();
  const CurrentGpu current(cuda_, membership.rank);
  (void)horingCommInitRank(&comm_, membership.ranks, membership.id, membership.rank);
  for (;;) ::pause();
}

// Rank 0 of two, next to the first communicator.
class GpuFirstMessagesTrouble : public GpuFirstMessages {
 protected:
  void TearDown() override {
    for (const auto& other : others_) other->kill();
    GpuFirstMessages::TearDown();
  }
  horingResult_t make(horingConfig_t* config = nullptr) {
    Membership membership{{}, 0, 2};
    EXPECT_HORING(horingGetUniqueId(&membership.id));
    membership.rank = 1;
    others_.push_back(
        std::make_unique<OtherProcess>("GpuFirstMessages.DISABLED_HangsWhileAllAgree", membership));
    const CurrentGpu current(cuda_, 0);
    return horingCommInitRankConfig(&comm_, membership.ranks, membership.id, 0, config);
  }
  // Without waiting for it: on return the ranks have exchanged how they open each other's memory.
  void beginToMake() {
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_EQ(make(&config), horingInProgress);
    while (cuda_.calls("cuIpcOpenMemHandle") == opened_before_)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    horingResult_t state = horingSuccess;
    EXPECT_HORING(horingCommGetAsyncError(comm_, &state));
    EXPECT_EQ(state, horingInProgress);
  }

  const int opened_before_ = cuda_.calls("cuIpcOpenMemHandle");
};

TEST_F(GpuFirstMessagesTrouble, OfARankThatDiesWhileAllAgreeEndsTheMaking) {
  beginToMake();
  others_.front()->kill();
  horingResult_t state = horingInProgress;
  while (state == horingInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_HORING(horingCommGetAsyncError(comm_, &state));
  }
  EXPECT_EQ(state, horingRemoteError) << horingGetLastError(comm_);
  int failed = -1;
  EXPECT_HORING(horingCommGetFailedRank(comm_, &failed));
  EXPECT_EQ(failed, 1);
}

TEST_F(GpuFirstMessagesTrouble, OfARankThatHangsWhileAllAgreeEndsTheMakingAtItsDeadline) {
  const Setting timeout("HORING_INIT_TIMEOUT_MS", kShortTimeoutMs), later("HORING_TIMEOUT_MS", "600000");
  EXPECT_TRUE(refuses(make(), horingTimeout, "rank 1 of 2 did not take part"));
}

TEST_F(GpuFirstMessagesTrouble, IsNoneForAnAbort) {
  const Setting timeout("HORING_INIT_TIMEOUT_MS", "600000");
  beginToMake();
  EXPECT_HORING(horingCommAbort(std::exchange(comm_, nullptr)));
}

// Threads that know nothing of each other, each with a GPU current.
class GpuFirstMessagesOfNodesTrouble : public GpuKernelTrouble {
 protected:
  static constexpr int kRanks = 3;
  // `gpuOf(rank)` is current.
  template <typename GpuOf>
  void meetOn(const GpuOf& gpuOf) {
    const Setting over("HORING_TRANSPORTS", "shm,socket");
    std::vector<std::unique_ptr<CurrentGpu>> current;
    comms_ = makeOneByOne(kRanks, [&](int rank) {
      ::setenv("HORING_HOSTID", ("node " + std::to_string(rank)).c_str(), 1);
      current.push_back(std::make_unique<CurrentGpu>(cuda_, gpuOf(rank)));
    });
    ::unsetenv("HORING_HOSTID");
  }
  void meet() override {
    meetOn([](int rank) { return rank; });
  }
  // From rank 0 to rank 2.
  void expectMessages(const char* what = "") {
    onEveryRank(kRanks, [&](int rank) {
      const GpuVector<float> data(cuda_, rank, std::vector<float>(8, static_cast<float>(rank)));
      if (rank == 0) {
        EXPECT_HORING(horingSend(data.data(), 8, horingFloat, 2, comm(0), nullptr)) << what;
      } else if (rank == 2) {
        EXPECT_HORING(horingRecv(data.data(), 8, horingFloat, 0, comm(2), nullptr)) << what;
      }
      EXPECT_EQ(data.read(), std::vector<float>(8, rank == 1 ? 1 : 0)) << what;
    });
  }
  void expectKernels() {
    const int launches = cuda_.launches();
    expectMessages();
    EXPECT_EQ(cuda_.launches(), launches + 2);
  }
  void expectHosts() {
    const int launches = cuda_.launches();
    expectMessages();
    EXPECT_EQ(cuda_.launches(), launches);
  }
  void end() {
    for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  }
  uint64_t memoryBytes() {
    uint64_t bytes = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(0), &bytes));
    return bytes;
  }
};

TEST_F(GpuFirstMessagesOfNodesTrouble, IsNoneForThreadsOfAGroup) {
  meet();
  expectKernels();
}

// Whichever allocation fails, the communicator is made, and messages arrive.
TEST_F(GpuFirstMessagesOfNodesTrouble, OfMemoryIsNoneForTheMakingOfACommunicator) {
  for (const auto& [function, most] :
       {std::pair("cuMemAlloc", 3), std::pair("cuMemHostAlloc", 12), std::pair("cuModuleLoadData", 9)})
    for (int successes = 0; successes <= most; ++successes) {
      cuda_.fail(function, 2, successes, 1);
      meet();
      cuda_.fail(nullptr, 0);
      expectMessages(function);
      end();
    }
}

// Hosts need not have the GPU that kernels would have had.
TEST_F(GpuFirstMessagesOfNodesTrouble, OfMemoryLeavesTheGpuToTheFirstOperation) {
  cuda_.fail("cuMemAlloc", 2, 0, 1);
  meet();
  cuda_.fail(nullptr, 0);
  onEveryRank(kRanks, [&](int rank) {
    EXPECT_HORING(add(rank, GpuVector<float>(cuda_, 3, std::vector<float>(8, 1)).data(), nullptr));
  });
}

// No rank allocates for kernels that cannot run; with one GPU each, kernels serve them later.
TEST_F(GpuFirstMessagesOfNodesTrouble, OfProcessesThatHaveTheSameGpuCurrentIsLeftToTheFirstCollective) {
  meetOn([](int) { return 0; });
  EXPECT_LT(memoryBytes(), 1U << 20);
  expectHosts();
  onEveryRank(kRanks, [&](int rank) {
    EXPECT_HORING(add(rank, GpuVector<float>(cuda_, rank, std::vector<float>(8, 1)).data(), nullptr));
  });
  expectKernels();
}

TEST_F(GpuFirstMessagesOfNodesTrouble, OfAnotherGpuThanWasCurrentIsNamed) {
  meet();
  EXPECT_TRUE(refuses(
      add(0, on_1_.data(), nullptr), horingInvalidUsage,
      "works on GPU 0 since it was made or its first operation there, and these buffers are on GPU 1"));
}

// They name no memory, and stay with hosts where all messages do.
TEST_F(GpuFirstMessagesOfNodesTrouble, IsNoneForEmptyMessagesOfProgramsThatUseNoGpu) {
  meet();
  const int launches = cuda_.launches();
  const uint64_t memory = memoryBytes();
  onEveryRank(kRanks, [&](int rank) {
    const int next = (rank + 1) % kRanks, last = (rank + 2) % kRanks;
    std::vector<float> sent(8, static_cast<float>(rank)), received(8);
    ASSERT_HORING(horingGroupStart());
    EXPECT_HORING(horingSend(sent.data(), 8, horingFloat, next, comm(rank), nullptr));
    EXPECT_HORING(horingRecv(received.data(), 8, horingFloat, last, comm(rank), nullptr));
    EXPECT_HORING(horingGroupEnd());
    ASSERT_HORING(horingGroupStart());
    EXPECT_HORING(horingSend(nullptr, 0, horingFloat, last, comm(rank), nullptr));
    EXPECT_HORING(horingRecv(nullptr, 0, horingFloat, next, comm(rank), nullptr));
    EXPECT_HORING(horingGroupEnd());
    EXPECT_EQ(received, std::vector<float>(8, static_cast<float>(last)));
  });
  EXPECT_EQ(cuda_.launches(), launches);
  EXPECT_LT(memoryBytes(), memory + (4U << 20));
  onEveryRank(2, [&](int rank) {
    std::vector<float> data(8);
    if (rank == 0) {
      (void)horingSend(nullptr, 0, horingFloat, 1, comm(0), nullptr);
    } else {
      EXPECT_EQ(horingRecv(data.data(), 8, horingFloat, 0, comm(1), nullptr), horingInvalidUsage);
    }
  });
}

// One end has used its GPU, the other has not.
TEST_F(GpuFirstMessagesOfNodesTrouble, IsNoneForAnEmptyMessageOfWhichOneEndAloneHasUsedItsGpu) {
  meet();
  expectKernels();
  const int launches = cuda_.launches();
  onEveryRank(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_HORING(horingSend(nullptr, 0, horingFloat, 1, comm(0), nullptr));
    } else {
      EXPECT_HORING(horingRecv(nullptr, 0, horingFloat, 0, comm(1), nullptr));
    }
  });
  EXPECT_EQ(cuda_.launches(), launches);
}

TEST_F(GpuFirstMessagesOfNodesTrouble, IsNoneWhereHostsAreToServe) {
  const Setting path("HORING_GPU_PATH", "staged");
  meet();
  EXPECT_LT(memoryBytes(), 1U << 20);
  expectHosts();
}

TEST_F(GpuFirstMessagesOfNodesTrouble, IsNoneForTheRecordingOfAGraph) {
  const GpuStream stream(cuda_, 0);
  const CurrentGpu current(cuda_, 0);
  const RecordedGraph graph(cuda_, stream, [&] { meet(); });
  expectKernels();
}

}  // namespace
