// Communicators that are made and destroyed while kernels of another communicator wait for a thread. The fake driver blocks calls until
// kernels have ended, as a driver may; kernels are the engine's, run on threads of the host.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_ranks.h"

namespace {

using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;

// A second one of the same ranks, on the same GPUs.
class GpuReserveTrouble : public GpuKernelTrouble {
 protected:
  void TearDown() override {
    cuda_.waitForKernels(FakeCuda::kNone);
    for (const horingComm_t other : others_) EXPECT_HORING(horingCommDestroy(other));
    GpuKernelTrouble::TearDown();
  }
  void makeOthers() { others_ = makeCommunicators(2, Meeting::kInitAll); }
  horingResult_t addByOther(int rank, float* data, void* stream) {
    return horingAllReduce(data, data, 8, horingFloat, horingSum, others_[static_cast<size_t>(rank)], stream);
  }
  void useOthers() {
    onEveryRank(2, [&](int rank) { EXPECT_HORING(addByOther(rank, on(rank).data(), nullptr)); });
  }
  void destroyOther(int rank) {
    EXPECT_HORING(horingCommDestroy(std::exchange(others_[static_cast<size_t>(rank)], nullptr)));
  }
  void destroyOthers() {
    for (int rank = 0; rank < 2; ++rank) destroyOther(rank);
    others_.clear();
  }
  void awaitKernel(int gpu) const {
    while (cuda_.running(gpu) == 0) std::this_thread::yield();
  }

  std::vector<horingComm_t> others_;
};

// What both ranks had goes when the second one leaves, whose call the first one's kernel waits for.
TEST_F(GpuReserveTrouble, IsNoneWhereOneIsDestroyedWhileKernelsOfAnotherWaitForThatThread) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  makeOthers();
  useOthers();
  cuda_.waitForKernels(FakeCuda::kFrees);
  onEveryRank(2, [&](int rank) {
    if (rank == 1) awaitKernel(0);
    destroyOther(rank);
    const GpuStream stream(cuda_, rank);
    EXPECT_HORING(add(rank, on(rank).data(), stream.get()));
    stream.synchronize();
    EXPECT_EQ(asyncError(rank), horingSuccess) << horingGetLastError(comm(rank));
    EXPECT_EQ(on(rank).read(), std::vector<float>(8, 8));
  });
  others_.clear();
}

// It takes what another one has left.
TEST_F(GpuReserveTrouble, IsNoneWhereOneIsMadeWhileKernelsOfAnotherWaitForThatThread) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs);
  begin();
  makeOthers();
  useOthers();
  destroyOthers();
  makeOthers();
  // Both run at once, so each has its own data.
  const std::vector<float> ones(8, 1);
  const GpuVector<float> data[] = {{cuda_, 0, ones}, {cuda_, 1, ones}};
  cuda_.waitForKernels(FakeCuda::kAllocations);
  onEveryRank(2, [&](int rank) {
    const GpuStream stream(cuda_, rank), other(cuda_, rank);
    const auto addByFirst = [&] { EXPECT_HORING(add(rank, on(rank).data(), stream.get())); };
    if (rank == 0) addByFirst();
    awaitKernel(0);
    EXPECT_HORING(addByOther(rank, data[rank].data(), other.get()));
    if (rank == 1) addByFirst();
    other.synchronize();
    stream.synchronize();
    EXPECT_EQ(asyncError(rank), horingSuccess) << horingGetLastError(comm(rank));
    EXPECT_EQ(data[rank].read(), std::vector<float>(8, 2));
  });
}

TEST_F(GpuReserveTrouble, IsNoneWithMemoryWhereManyComeAndGo) {
  const int before = cuda_.live();
  begin();
  const auto comeAndGo = [&] {
    makeOthers();
    useOthers();
    destroyOthers();
    return cuda_.live();
  };
  const int live = comeAndGo(), allocations = cuda_.calls("cuMemAlloc") + cuda_.calls("cuMemHostAlloc");
  EXPECT_GT(live, before);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(comeAndGo(), live);
  EXPECT_EQ(cuda_.calls("cuMemAlloc") + cuda_.calls("cuMemHostAlloc"), allocations);
  // No rank has any left then.
  for (horingComm_t& comm : comms_) EXPECT_HORING(horingCommDestroy(std::exchange(comm, nullptr)));
  EXPECT_EQ(cuda_.live(), before);
}

// Earlier work of the program holds each launch up for a fifth of a second: all of them end, and then no memory is kept.
TEST_F(GpuReserveTrouble, IsNoneWhereOneIsDestroyedWhoseLaunchesEndOneByOne) {
  constexpr int kLaunches = 12;
  const int before = cuda_.live();
  begin();
  std::vector<std::atomic<bool>> gates(kLaunches);
  const std::vector<float> before_destroy = on_0_.read();
  {
    const GpuStream streams[] = {{cuda_, 0}, {cuda_, 1}};
    for (const std::atomic<bool>& gate : gates)
      onEveryRank(2, [&](int rank) {
        streams[rank].waitFor(gate);
        EXPECT_HORING(add(rank, on(rank).data(), streams[rank].get()));
      });
    std::thread opens([&] {
      for (std::atomic<bool>& gate : gates) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        gate = true;
      }
    });
    onEveryRank(2, [&](int rank) {
      EXPECT_HORING(horingCommDestroy(std::exchange(comms_[static_cast<size_t>(rank)], nullptr)));
    });
    opens.join();
  }
  std::vector<float> expected = before_destroy;
  for (float& each : expected) each *= 1 << kLaunches;
  EXPECT_EQ(on_0_.read(), expected);
  EXPECT_EQ(cuda_.live(), before);
}

}  // namespace
