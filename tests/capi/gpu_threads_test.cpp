// Kernels of ranks that are threads of one process, each with its own GPU, and met by an ID. Emulated; gpu_kernels_test.cpp has what their
// operations give.
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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

class GpuThreadsOfTwoNodes : public GpuThreads {
 protected:
  std::vector<horingComm_t> makeNodesOfTwo(int ranks, int with_gpu = 4) {
    std::vector<horingComm_t> comms(static_cast<size_t>(ranks), nullptr);
    horingUniqueId id;
    EXPECT_HORING(horingGetUniqueId(&id));
    EXPECT_HORING(horingGroupStart());
    for (int rank = 0; rank < ranks; ++rank) {
      const Setting node("HORING_HOSTID", rank < 2 ? "node 0" : "node 1");
      std::optional<CurrentGpu> current;
      if (rank < with_gpu) current.emplace(cuda_, rank);
      EXPECT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank));
    }
    EXPECT_HORING(horingGroupEnd());
    return comms;
  }
  const Setting timeout_{"HORING_TIMEOUT_MS", kShortTimeoutMs},
      transports_{"HORING_TRANSPORTS", "shm,socket"};
};

TEST_F(GpuThreadsOfTwoNodes, MayBeDrivenByOneThread) {
  const std::vector<horingComm_t> comms = makeNodesOfTwo(4);
  cuda_.fail("cuStreamWaitValue32", 999);  // which all that goes through hosts needs
  for (const size_t count : {8, 8, 50'000}) expectSumsOf(comms, count);
  cuda_.fail(nullptr, 0);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Rank 2 has a thread of its own.
TEST_F(GpuThreadsOfTwoNodes, DoNotMeetForCallsThatMoveNothing) {
  const std::vector<horingComm_t> comms = makeNodesOfTwo(3);
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1)), other(cuda_, 1, std::vector<float>(8, 1)),
      third(cuda_, 2, std::vector<float>(8, 1));
  const GpuStream stream(cuda_, 0), side(cuda_, 1), apart(cuda_, 2);
  const auto call = [&](int rank, const GpuVector<float>& of_rank, const GpuStream& on) {
    const horingComm_t comm = comms[static_cast<size_t>(rank)];
    EXPECT_HORING(horingAllGather(of_rank.data(), of_rank.data(), 0, horingFloat, comm, on.get()));
    EXPECT_HORING(horingAllReduce(of_rank.data(), of_rank.data(), 8, horingFloat, horingSum, comm, on.get()));
  };
  std::thread alone([&] { call(2, third, apart); });
  EXPECT_HORING(horingGroupStart());
  call(0, data, stream);
  call(1, other, side);
  EXPECT_HORING(horingGroupEnd());
  alone.join();
  for (const GpuStream* const each : {&stream, &side, &apart}) each->synchronize();
  for (const GpuVector<float>* const each : {&data, &other, &third})
    EXPECT_EQ(each->read(), std::vector<float>(8, 3));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

TEST_F(GpuThreadsOfTwoNodes, NameTheRankThatNeverComes) {
  const std::vector<horingComm_t> comms = makeNodesOfTwo(3);
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8, 1)), other(cuda_, 1, std::vector<float>(8, 1));
  const GpuStream stream(cuda_, 0), side(cuda_, 1);
  EXPECT_HORING(horingGroupStart());
  EXPECT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comms[0], stream.get()));
  EXPECT_HORING(horingAllReduce(other.data(), other.data(), 8, horingFloat, horingSum, comms[1], side.get()));
  EXPECT_HORING(horingGroupEnd());
  stream.synchronize();
  side.synchronize();
  EXPECT_TRUE(
      refuses(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comms[0], stream.get()),
              horingTimeout, "rank 2 never called all_reduce launch #0"));
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommAbort(comm));
}

// Rank 2 had no GPU then. An all-to-all of this kind makes no plans, for which the others would meet.
TEST_F(GpuThreadsOfTwoNodes, AreLeftToTheHostWhereARankHadNoGpu) {
  testing::internal::CaptureStderr();
  const std::vector<horingComm_t> comms = makeNodesOfTwo(3, 2);
  std::vector<std::unique_ptr<GpuStream>> streams;
  std::vector<std::unique_ptr<GpuVector<float>>> sent, received;
  constexpr size_t counts[] = {1, 1, 1}, places[] = {0, 1, 2};
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    streams.push_back(std::make_unique<GpuStream>(cuda_, rank));
    sent.push_back(
        std::make_unique<GpuVector<float>>(cuda_, rank, std::vector<float>(3, static_cast<float>(rank))));
    received.push_back(std::make_unique<GpuVector<float>>(cuda_, rank, std::vector<float>(3, -1)));
    EXPECT_HORING(horingAlltoAllV(sent.back()->data(), counts, places, received.back()->data(), counts,
                                  places, horingFloat, comms[static_cast<size_t>(rank)],
                                  streams.back()->get()));
  }
  EXPECT_HORING(horingGroupEnd());
  for (size_t rank = 0; rank < 3; ++rank) {
    streams[rank]->synchronize();
    EXPECT_EQ(received[rank]->read(), (std::vector<float>{0, 1, 2}));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("rank 2 had no GPU current"), std::string::npos) << log;
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
