// Kernels of ranks that are processes, or reach each other through their hosts alone. Emulated.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;

// Threads that know nothing of each other, and reach each other through their hosts alone.
class GpuNodeTrouble : public GpuKernelTrouble {
 protected:
  void meet() override { comms_ = makeNodes(2, "shm,socket"); }
  // On a stream each, the operation that begin() did before.
  void expectSums(const char* what) {
    onEveryRank(2, [&](int rank) {
      on(rank).write(std::vector<float>(8, 1));
      EXPECT_HORING(add(rank, on(rank).data(), nullptr)) << what;
      EXPECT_EQ(on(rank).read(), std::vector<float>(8, 2)) << what;
    });
  }
  bool areStaged(int rank) {
    uint64_t bytes = 0;
    EXPECT_HORING(horingCommMemoryBytes(comm(rank), &bytes));
    return bytes < 32U << 20;
  }
};

TEST_F(GpuNodeTrouble, ReplaysOfGraphsNeedNoCallOfTheHost) {
  begin();
  replaySums(cuda_, comms_);
}

TEST_F(GpuNodeTrouble, AbortEndsTheKernelsOfOtherNodes) {
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
  stream.synchronize();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingRemoteError, "rank 1"));
}

TEST_F(GpuNodeTrouble, OfAPeerThatNeverComesEndsAtTheDeadlineAndReachesIt) {
  const Setting timeout("HORING_TIMEOUT_MS", "6000");
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  stream.synchronize();
  EXPECT_EQ(asyncError(0), horingTimeout);
  EXPECT_TRUE(
      refuses(add(0, on_0_.data(), stream.get()), horingTimeout, "rank 1 never called all_reduce launch #1"));
  EXPECT_NE(add(1, on_1_.data(), nullptr), horingSuccess);
}

// One waits in a kernel that all have met for, and the other for all to meet for another.
TEST_F(GpuNodeTrouble, OfACallThatOneRankAloneHasNoPlanForIsNamedLongBeforeTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  begin();
  const GpuStream stream(cuda_, 0);
  EXPECT_HORING(add(0, on_0_.data(), stream.get()));
  EXPECT_TRUE(refuses(horingBroadcast(on_1_.data(), on_1_.data(), 8, horingFloat, 0, comm(1), nullptr),
                      horingInvalidUsage, "ranks disagree about launch #1"));
  stream.synchronize();
  EXPECT_TRUE(refuses(add(0, on_0_.data(), stream.get()), horingInvalidUsage, "rank 1 called broadcast"));
  EXPECT_EQ(asyncError(1), horingInvalidUsage);
}

TEST_F(GpuNodeTrouble, OfCallsThatNeitherRankHasAPlanForIsNamed) {
  begin();
  onEveryRank(2, [&](int rank) {
    EXPECT_TRUE(
        refuses(horingBroadcast(on(rank).data(), on(rank).data(), 8, horingFloat, rank, comm(rank), nullptr),
                horingInvalidUsage, "ranks disagree about launch #1"));
    EXPECT_EQ(asyncError(rank), horingInvalidUsage) << "it sticks";
  });
}

// No other rank need make it, not even for it to find out whether kernels serve all.
TEST_F(GpuNodeTrouble, IsNoneWhereARankAloneMovesNothing) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");
  meet();
  const GpuStream stream(cuda_, 0);
  const auto nothing = [&](void* on) {
    return horingAllReduce(on_0_.data(), on_0_.data(), 0, horingFloat, horingSum, comm(0), on);
  };
  EXPECT_HORING(nothing(stream.get()));
  EXPECT_HORING(nothing(nullptr));
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(nothing(stream.get()));
  EXPECT_HORING(nothing(nullptr));
  EXPECT_HORING(horingGroupEnd());
  expectSums("after nothing");
}

// A rank that is done may go: what it has sent arrives, and those that are not done go on.
TEST_F(GpuNodeTrouble, IsNoneWhereARankLeavesWhenItIsDone) {
  begin();
  const GpuStream stream(cuda_, 0), other(cuda_, 1);
  std::atomic<bool> gate{false};
  other.waitFor(gate);
  const auto broadcast = [&](int rank, float* data, void* on) {
    return horingBroadcast(data, data, 8, horingFloat, 0, comm(rank), on);
  };
  // The first makes the plan, so both are in it.
  onEveryRank(2, [&](int rank) {
    EXPECT_HORING(broadcast(rank, this->on(rank).data(), rank == 0 ? stream.get() : other.get()));
  });
  stream.synchronize();
  const std::vector<float> sum = on_0_.read();
  std::thread leaves([&] { EXPECT_HORING(horingCommDestroy(std::exchange(comms_[0], nullptr))); });
  gate = true;
  leaves.join();
  other.synchronize();
  EXPECT_EQ(on_1_.read(), sum);
}

TEST_F(GpuNodeTrouble, IsNoneWhereAGroupNamesCommunicatorsInAnotherOrder) {
  const Setting timeout("HORING_TIMEOUT_MS", "20000");
  meet();
  std::vector<horingComm_t> others = makeNodes(2, "shm,socket");
  onEveryRank(2, [&](int rank) {
    const std::vector<float> ones(8, 1);
    const GpuVector<float> data(cuda_, rank, ones), more(cuda_, rank, ones);
    const GpuStream stream(cuda_, rank);
    const horingComm_t here = comm(rank), there = others[static_cast<size_t>(rank)];
    for (int round = 0; round < 2; ++round) {
      EXPECT_HORING(horingGroupStart());
      for (const bool turn : {rank == 0, rank != 0}) {
        float* const at = turn ? data.data() : more.data();
        EXPECT_HORING(horingAllReduce(at, at, 8, horingFloat, horingSum, turn ? here : there, stream.get()));
      }
      EXPECT_HORING(horingGroupEnd());
    }
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(8, 4));
    EXPECT_EQ(more.read(), std::vector<float>(8, 4));
  });
  for (const horingComm_t other : others) EXPECT_HORING(horingCommDestroy(other));
}

TEST_F(GpuNodeTrouble, WithKernelsOfOneRankIsNoneForTheHostsOfAll) {
  constexpr std::pair<const char*, int> kTroubles[] = {
      {"cuModuleLoadData", 218}, {"cuMemAlloc", 2}, {"cuDeviceGetUuid", 1}};
  for (const auto& [function, error] : kTroubles)
    for (const int successes : {0, 1}) {  // those of one rank
      meet();
      cuda_.fail(function, error, successes);
      onEveryRank(
          2, [&, name = function](int rank) { EXPECT_HORING(add(rank, on(rank).data(), nullptr)) << name; });
      cuda_.fail(nullptr, 0);
      EXPECT_TRUE(areStaged(0) && areStaged(1)) << function;
      expectSums(function);
      for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
    }
}

TEST_F(GpuNodeTrouble, WithAPlanOfOneRankIsNoneForLaterKernels) {
  expectKernelsAfterAPlanThatIsRefused();
}

// Their kernels may never run at once.
TEST_F(GpuNodeTrouble, OfProcessesThatShareAGpuIsLeftToTheirHosts) {
  meet();
  const GpuVector<float> there(cuda_, 0, std::vector<float>(8, 1));
  onEveryRank(2,
              [&](int rank) { EXPECT_HORING(add(rank, rank == 0 ? on_0_.data() : there.data(), nullptr)); });
  EXPECT_TRUE(areStaged(0) && areStaged(1));
  EXPECT_EQ(there.read(), std::vector<float>(8, 2));
}

std::string hexOf(const horingUniqueId& id) {
  std::string text;
  for (const char byte : id.internal) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

// Rank 1 in a process of its own: takes part once, and dies.
TEST(GpuProcess, DISABLED_TakesPartOnceAndDies) {
  const char* text = std::getenv("HORING_TEST_ID");
  ASSERT_NE(text, nullptr);
  horingUniqueId id;
  for (char& byte : id.internal) {
    byte = static_cast<char>(std::stoi(std::string(text, 2), nullptr, 16));
    text += 2;
  }
  const FakeCuda cuda;
  cuda.setKernels(&horing::test::emulatedKernels());
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingCommInitRank(&comm, 2, id, 1));
  const GpuVector<float> data(cuda, 1, std::vector<float>(8, 1));
  ASSERT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comm, nullptr));
  ASSERT_EQ(data.read(), std::vector<float>(8, 2));
  ::raise(SIGKILL);
}

TEST(GpuProcess, ThatDiesEndsTheKernelsThatWaitForIt) {
  if (FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  const std::string text = hexOf(id);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("HORING_TEST_ID", text.c_str(), 1);
    ::execl("/proc/self/exe", "test", "--gtest_also_run_disabled_tests",
            "--gtest_filter=GpuProcess.DISABLED_*", nullptr);
    ::_exit(127);
  }
  ASSERT_GT(child, 0);
  const FakeCuda cuda;
  cuda.setKernels(&horing::test::emulatedKernels());
  horingComm_t comm = nullptr;
  ASSERT_HORING(horingCommInitRank(&comm, 2, id, 0));
  const GpuVector<float> data(cuda, 0, std::vector<float>(8, 1));
  const GpuStream stream(cuda, 0);
  for (int i = 0; i < 2; ++i)
    ASSERT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comm, stream.get()));
  stream.synchronize();
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_TRUE(
      refuses(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comm, stream.get()),
              horingRemoteError, "rank 1"));
  // The stream is usable again.
  const std::vector<float> threes(8, 3);
  data.writeOn(stream, threes);
  stream.synchronize();
  EXPECT_EQ(data.read(), threes);
  EXPECT_HORING(horingCommDestroy(comm));
  cuda.setKernels(nullptr);
}

}  // namespace
