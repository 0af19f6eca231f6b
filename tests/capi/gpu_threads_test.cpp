// Kernels of ranks that are threads of one process, each with its own GPU, and met by an ID. Emulated; gpu_kernels_test.cpp has what their
// operations give.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;

class GpuThreads : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(FakeCuda::isReal()) << "made for the fake driver";
    cuda_.setKernels(&horing::test::emulatedKernels());
  }
  void TearDown() override { cuda_.setKernels(nullptr); }
  // One thread calls for all ranks.
  void expectSumsOf(const std::vector<horingComm_t>& comms, size_t count) {
    std::vector<std::unique_ptr<GpuStream>> streams;
    std::vector<std::unique_ptr<GpuVector<float>>> data;
    ASSERT_HORING(horingGroupStart());
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      const int gpu = static_cast<int>(rank);
      streams.push_back(std::make_unique<GpuStream>(cuda_, gpu));
      data.push_back(std::make_unique<GpuVector<float>>(cuda_, gpu, std::vector<float>(count, 1)));
      EXPECT_HORING(horingAllReduce(data.back()->data(), data.back()->data(), count, horingFloat, horingSum,
                                    comms[rank], streams.back()->get()));
    }
    ASSERT_HORING(horingGroupEnd());
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      streams[rank]->synchronize();
      EXPECT_EQ(data[rank]->read(), std::vector<float>(count, static_cast<float>(comms.size())));
    }
  }
  const FakeCuda cuda_;
};

// Here the ranks agree on every kernel, which takes each of them.
TEST_F(GpuThreads, OfSeveralNodesMayBeDrivenByOneThread) {
  const Setting timeout("HORING_TIMEOUT_MS", kShortTimeoutMs), transports("HORING_TRANSPORTS", "shm,socket");
  std::vector<horingComm_t> comms(4, nullptr);
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < 4; ++rank) {
    const Setting node("HORING_HOSTID", rank < 2 ? "node 0" : "node 1");
    const CurrentGpu current(cuda_, rank);
    EXPECT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], 4, id, rank));
  }
  ASSERT_HORING(horingGroupEnd());
  cuda_.fail("cuStreamWaitValue32", 999);  // which all that goes through hosts needs
  for (const size_t count : {8, 8, 50'000}) expectSumsOf(comms, count);
  cuda_.fail(nullptr, 0);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// The first to leave cannot wait for the others, which leave on the same thread.
TEST_F(GpuThreads, GiveTheirMemoryBackWhereOneThreadEndsThemOneByOne) {
  const int live = cuda_.live();
  const std::vector<horingComm_t> comms = makeThreads(cuda_, 3);
  expectSumsOf(comms, 1000);
  EXPECT_GT(cuda_.live(), live);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(GpuThreads, ThatShareAGpuAreLeftToTheHost) {
  testing::internal::CaptureStderr();
  std::vector<horingComm_t> comms(2, nullptr);
  horingUniqueId id;
  ASSERT_HORING(horingGetUniqueId(&id));
  {
    const CurrentGpu current(cuda_, 0);
    ASSERT_HORING(horingGroupStart());
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], 2, id, rank));
    ASSERT_HORING(horingGroupEnd());
  }
  const GpuVector<float> one(cuda_, 0, std::vector<float>(8, 1)), two(cuda_, 0, std::vector<float>(8, 1));
  onEveryRank(2, [&](int rank) {
    float* const data = (rank == 0 ? one : two).data();
    EXPECT_HORING(
        horingAllReduce(data, data, 8, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
  });
  EXPECT_EQ(two.read(), std::vector<float>(8, 2));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      log.find("rank 1 is one of 2 ranks of a process that met by ID, and its GPU is also another rank's"),
      std::string::npos)
      << log;
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// A kernel of the other rank waits.
TEST_F(GpuThreads, EndWithAnErrorWhereOneIsAborted) {
  const std::vector<horingComm_t> comms = makeThreads(cuda_, 2);
  expectSumsOf(comms, 8);
  const GpuStream stream(cuda_, 0);
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1));
  EXPECT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comms[0], stream.get()));
  EXPECT_HORING(horingCommAbort(comms[1]));
  stream.synchronize();
  horingResult_t heard = horingSuccess;
  EXPECT_HORING(horingCommGetAsyncError(comms[0], &heard));
  EXPECT_EQ(heard, horingRemoteError);
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

}  // namespace
