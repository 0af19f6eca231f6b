// Which streams of a GPU the ranks of a process may use for waits, where they share it: those that hold each other back are refused.
#include <atomic>
#include <thread>
#include <utility>

#include "fake_cuda/fake_gpu.h"
#include "gpu_one_sided.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::GpuStream;
using horing::test::GpuVector;

using GpuDefaultStreams = GpuKernelTrouble;

// A default stream is one for all ranks on its GPU, and those that are not made with cudaStreamNonBlocking and it hold each other back.
TEST_F(GpuDefaultStreams, AreRefusedWhereRanksShareAGpuAndOneWaits) {
  const std::vector<horingComm_t> comms = makeCommunicators(3, Meeting::kInitRank);
  const GpuStream legacy = GpuStream::ofDefault(cuda_), other(cuda_, 0),
                  blocking(cuda_, 0, GpuStream::kBlocking);
  void* const of_cuda = reinterpret_cast<void*>(1);
  void* const of_thread = reinterpret_cast<void*>(2);
  const auto signal_on = [&](void* stream, int from) {
    return horingSignal(0, 0, 0, 0, comms[static_cast<size_t>(from)], stream);
  };
  {
    const CurrentGpu current(cuda_, 1);
    EXPECT_HORING(await(1, 1, comms[1], of_cuda)) << "alone on GPU 1";
    EXPECT_HORING(horingSignal(1, 0, 0, 0, comms[1], nullptr));
    legacy.synchronize();
  }
  const CurrentGpu current(cuda_, 0);
  EXPECT_HORING(await(2, 3, comms[0], of_cuda));
  EXPECT_FALSE(legacy.idle()) << "it does not block";
  const char* const why =
      "rank 0 of this process is on GPU 0, too, and waits for a signal on the default stream";
  EXPECT_TRUE(refuses(signal_on(of_cuda, 2), horingInvalidUsage, why));
  EXPECT_TRUE(refuses(signal_on(of_thread, 2), horingInvalidUsage, why));
  EXPECT_TRUE(refuses(signal_on(blocking.get(), 2), horingInvalidUsage, why));
  EXPECT_TRUE(refuses(await(0, 1, comms[2], blocking.get()), horingInvalidUsage, "cudaStreamNonBlocking"));
  // These do not, and one that is complete on return has none.
  EXPECT_HORING(signal_on(other.get(), 2));
  EXPECT_HORING(signal_on(other.get(), 2));
  EXPECT_HORING(signal_on(nullptr, 2));
  legacy.synchronize();
  for (void* const stream : {of_cuda, of_thread, blocking.get()})
    EXPECT_HORING(signal_on(stream, 2)) << "the wait is over";
  EXPECT_HORING(await(2, 3, comms[0], nullptr));
  EXPECT_HORING(await(0, 1, comms[2], other.get()));
  EXPECT_HORING(horingSignal(2, 0, 0, 0, comms[0], of_cuda));
  other.synchronize();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// What a later wait comes behind it does not hold back.
TEST_F(GpuDefaultStreams, AreNotRefusedForAWaitBehindASignal) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const GpuStream legacy = GpuStream::ofDefault(cuda_), blocking(cuda_, 0, GpuStream::kBlocking);
  void* const of_cuda = reinterpret_cast<void*>(1);
  void* const of_thread = reinterpret_cast<void*>(2);
  const CurrentGpu current(cuda_, 0);
  std::atomic<bool> gate{false};
  blocking.waitFor(gate);
  EXPECT_HORING(horingSignal(1, 0, 0, 0, comms[0], of_cuda));
  EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], blocking.get()));
  EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], of_cuda));
  EXPECT_HORING(await(1, 2, comms[0], of_cuda));
  EXPECT_TRUE(refuses(await(0, 1, comms[1], of_thread), horingInvalidUsage,
                      "waits for a signal on the default stream"));
  gate = true;
  legacy.synchronize();
  EXPECT_HORING(await(0, 1, comms[1], of_thread));
  GpuStream::ofThread(cuda_).synchronize();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Nothing of it is enqueued or counts. What comes behind a wait of the group waits, too, but not what comes behind a signal.
TEST_F(GpuDefaultStreams, RefuseAGroupAsAWhole) {
  const Setting path("HORING_GPU_PATH", "staged");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const GpuStream legacy = GpuStream::ofDefault(cuda_), alone(cuda_, 0),
                  blocking(cuda_, 0, GpuStream::kBlocking), other(cuda_, 0, GpuStream::kBlocking);
  void* const of_cuda = reinterpret_cast<void*>(1);
  const CurrentGpu current(cuda_, 0);
  const auto signal_from = [&](int rank, void* stream) {
    return horingSignal(1 - rank, 0, 0, 0, comms[static_cast<size_t>(rank)], stream);
  };
  const auto group = [](const auto& calls) {
    EXPECT_HORING(horingGroupStart());
    calls();
    return horingGroupEnd();
  };
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1)),
      of_peer(cuda_, 0, std::vector<float>(8, 1));
  const auto sum = [&](int rank, const GpuVector<float>& own, void* stream) {
    return horingAllReduce(own.data(), own.data(), 8, horingFloat, horingSum,
                           comms[static_cast<size_t>(rank)], stream);
  };
  // Connects them.
  onEveryRank(2, [&](int rank) {
    EXPECT_HORING(signal_from(rank, nullptr));
    EXPECT_HORING(await(1 - rank, 1, comms[static_cast<size_t>(rank)], nullptr));
  });
  horingStream_t of_library = nullptr;
  EXPECT_HORING(horingStreamCreate(&of_library));
  std::atomic<bool> gate{false};
  legacy.waitFor(gate);
  EXPECT_HORING(sum(1, data, of_library)) << "goes on until the gate opens";
  const horingResult_t behind_a_wait = group([&] {
    EXPECT_HORING(await(1, 1, comms[0], alone.get()));
    EXPECT_HORING(signal_from(0, of_cuda));
  });
  EXPECT_TRUE(refuses(behind_a_wait, horingInvalidUsage, "comes behind a wait of its group"));
  EXPECT_TRUE(alone.idle());
  EXPECT_HORING(group([&] {
    EXPECT_HORING(signal_from(0, alone.get()));
    EXPECT_HORING(signal_from(0, of_cuda));
  }));
  gate = true;
  EXPECT_HORING(sum(0, of_peer, nullptr));
  EXPECT_HORING(horingStreamSynchronize(of_library));
  EXPECT_HORING(horingStreamDestroy(of_library));
  EXPECT_HORING(await(0, 2, comms[1], blocking.get()));
  EXPECT_HORING(await(0, 1, comms[1], blocking.get()));
  const horingResult_t held_back = group([&] {
    EXPECT_HORING(await(1, 1, comms[0], other.get()));
    EXPECT_HORING(signal_from(0, of_cuda));
  });
  EXPECT_TRUE(refuses(held_back, horingInvalidUsage, "waits for a signal on a stream made without"));
  EXPECT_TRUE(other.idle());
  EXPECT_HORING(signal_from(1, of_cuda)) << "rank 0 waits nowhere";
  EXPECT_HORING(signal_from(0, alone.get()));
  legacy.synchronize();
  EXPECT_HORING(await(1, 1, comms[0], nullptr));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// The GPU's part of such a call is on the default stream. Refused are calls while a wait goes on, and waits while such a call does.
TEST_F(GpuDefaultStreams, AreUsedByCallsThatAreCompleteOnReturn) {
  const Setting path("HORING_GPU_PATH", "staged");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const GpuStream alone(cuda_, 0), blocking(cuda_, 0, GpuStream::kBlocking),
      legacy = GpuStream::ofDefault(cuda_);
  const CurrentGpu current(cuda_, 0);
  const auto sum = [&](int rank, void* stream = nullptr) {
    const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1));
    return horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum,
                           comms[static_cast<size_t>(rank)], stream);
  };
  for (int round = 0; round < 2; ++round) {
    onEveryRank(2, [&](int rank) { EXPECT_HORING(sum(rank)) << "no wait goes on"; });
    EXPECT_HORING(await(1, 1, comms[0], blocking.get()));
    EXPECT_TRUE(refuses(sum(1), horingInvalidUsage, "waits for a signal on a stream made without"));
    EXPECT_HORING(horingGroupStart());
    EXPECT_HORING(signal(0, comms[1], alone));
    EXPECT_HORING(sum(1));
    EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "This call uses the default stream"));
    EXPECT_FALSE(blocking.idle());
    EXPECT_HORING(signal(0, comms[1], alone));
    blocking.synchronize();
  }
  horingStream_t own = nullptr;
  EXPECT_HORING(horingStreamCreate(&own));
  std::atomic<bool> gate{false};
  legacy.waitFor(gate);
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1));
  EXPECT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comms[1], own));
  EXPECT_TRUE(refuses(await(1, 1, comms[0], blocking.get()), horingInvalidUsage, "uses the default stream"));
  gate = true;
  EXPECT_HORING(sum(0));
  EXPECT_HORING(horingStreamSynchronize(own));
  EXPECT_HORING(horingStreamDestroy(own));
  EXPECT_HORING(await(1, 1, comms[0], blocking.get()));
  EXPECT_HORING(signal(0, comms[1], alone));
  blocking.synchronize();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Each thread has one of its own.
TEST_F(GpuDefaultStreams, OfThreadsAreRefusedOnlyWithinAThread) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  void* const of_thread = reinterpret_cast<void*>(2);
  {
    const CurrentGpu current(cuda_, 0);
    EXPECT_HORING(await(1, 1, comms[0], of_thread));
    EXPECT_TRUE(
        refuses(horingSignal(0, 0, 0, 0, comms[1], of_thread), horingInvalidUsage, "cudaStreamPerThread"));
  }
  std::thread([&] {
    const CurrentGpu current(cuda_, 0);
    EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], of_thread));
    GpuStream::ofThread(cuda_).synchronize();
  }).join();
  const CurrentGpu current(cuda_, 0);
  GpuStream::ofThread(cuda_).synchronize();
  EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], of_thread)) << "the wait is over";
  EXPECT_HORING(await(1, 1, comms[0], nullptr));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// The system gives the ID of a thread that has ended to the next.
TEST_F(GpuDefaultStreams, OfThreadsAreNotThoseOfThreadsThatHaveEnded) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  void* const of_thread = reinterpret_cast<void*>(2);
  std::vector<std::thread::id> ids;
  const auto on_thread = [&](const auto& call) {
    std::thread thread([&] {
      const CurrentGpu current(cuda_, 0);
      call();
    });
    ids.push_back(thread.get_id());
    thread.join();
  };
  on_thread([&] { EXPECT_HORING(await(1, 1, comms[0], of_thread)); });
  on_thread([&] {
    EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], of_thread));
    GpuStream::ofThread(cuda_).synchronize();
  });
  EXPECT_EQ(ids[0], ids[1]) << "else the test shows nothing";
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

}  // namespace
