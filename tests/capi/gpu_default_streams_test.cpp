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
      "rank 0 of this process is on GPU 0, too, and has waited for a signal on the default stream";
  EXPECT_TRUE(refuses(signal_on(of_cuda, 2), horingInvalidUsage, why));
  EXPECT_TRUE(refuses(signal_on(of_thread, 2), horingInvalidUsage, why));
  EXPECT_TRUE(refuses(signal_on(blocking.get(), 2), horingInvalidUsage, why));
  EXPECT_TRUE(refuses(await(0, 1, comms[2], blocking.get()), horingInvalidUsage, "cudaStreamNonBlocking"));
  // These do not, and one that is complete on return has none.
  EXPECT_HORING(signal_on(other.get(), 2));
  EXPECT_HORING(signal_on(other.get(), 2));
  EXPECT_HORING(signal_on(nullptr, 2));
  legacy.synchronize();
  EXPECT_HORING(await(0, 1, comms[2], other.get()));
  EXPECT_HORING(horingSignal(2, 0, 0, 0, comms[0], of_cuda));
  other.synchronize();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Puts and signals end whatever other streams do.
TEST_F(GpuDefaultStreams, AreRefusedOnlyWithAWait) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const GpuStream legacy = GpuStream::ofDefault(cuda_), blocking(cuda_, 0, GpuStream::kBlocking);
  void* const of_cuda = reinterpret_cast<void*>(1);
  void* const of_thread = reinterpret_cast<void*>(2);
  const CurrentGpu current(cuda_, 0);
  EXPECT_HORING(horingSignal(1, 0, 0, 0, comms[0], of_cuda));
  EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], blocking.get()));
  EXPECT_HORING(horingSignal(0, 0, 0, 0, comms[1], of_cuda));
  EXPECT_TRUE(refuses(await(1, 2, comms[0], of_cuda), horingInvalidUsage,
                      "has used a stream made without cudaStreamNonBlocking"));
  EXPECT_TRUE(refuses(await(0, 1, comms[1], of_thread), horingInvalidUsage, "has used the default"));
  EXPECT_HORING(await(1, 2, comms[0], nullptr));
  EXPECT_HORING(await(0, 1, comms[1], nullptr));
  legacy.synchronize();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Nothing of it is enqueued or counts. A put that comes behind a wait waits, too, but not one behind a put.
TEST_F(GpuDefaultStreams, RefuseAGroupAsAWhole) {
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank);
  const GpuStream legacy = GpuStream::ofDefault(cuda_), alone(cuda_, 0),
                  blocking(cuda_, 0, GpuStream::kBlocking);
  void* const of_cuda = reinterpret_cast<void*>(1);
  const CurrentGpu current(cuda_, 0);
  const auto signal_from = [&](int rank, void* stream) {
    return horingSignal(1 - rank, 0, 0, 0, comms[static_cast<size_t>(rank)], stream);
  };
  EXPECT_HORING(signal_from(1, of_cuda));
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(await(1, 3, comms[0], alone.get()));
  EXPECT_HORING(await(1, 1, comms[0], blocking.get()));
  EXPECT_HORING(signal_from(0, of_cuda));
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "comes behind a wait of its group"));
  EXPECT_TRUE(alone.idle());
  EXPECT_HORING(signal_from(1, blocking.get()));
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(signal_from(0, alone.get()));
  EXPECT_HORING(signal_from(0, of_cuda));
  EXPECT_HORING(horingGroupEnd());
  EXPECT_HORING(await(1, 2, comms[0], nullptr));
  EXPECT_HORING(await(0, 2, comms[1], nullptr));
  for (const GpuStream* const each : {&legacy, &blocking}) each->synchronize();
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// The GPU's part of such a call is on the default stream.
TEST_F(GpuDefaultStreams, AreUsedByCallsThatAreCompleteOnReturn) {
  const Setting path("HORING_GPU_PATH", "staged");
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitRank),
                                  others = makeCommunicators(2, Meeting::kInitRank);
  const GpuStream alone(cuda_, 0), blocking(cuda_, 0, GpuStream::kBlocking);
  const CurrentGpu current(cuda_, 0);
  const auto sum = [&](horingComm_t comm) {
    const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1));
    return horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comm, nullptr);
  };
  onEveryRank(2, [&](int rank) { EXPECT_HORING(sum(comms[static_cast<size_t>(rank)])); });
  EXPECT_TRUE(refuses(await(1, 1, comms[0], blocking.get()), horingInvalidUsage, "has used the default"));
  EXPECT_HORING(await(1, 1, others[0], blocking.get()));
  EXPECT_TRUE(refuses(sum(others[1]), horingInvalidUsage, "waited for a signal on a stream made without"));
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(signal(0, others[1], alone));
  EXPECT_HORING(sum(others[1]));
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "This call uses the default stream"));
  EXPECT_FALSE(blocking.idle());
  EXPECT_HORING(signal(0, others[1], alone));
  blocking.synchronize();
  for (const auto& both : {comms, others})
    for (const horingComm_t comm : both) EXPECT_HORING(horingCommDestroy(comm));
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
