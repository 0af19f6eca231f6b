// Operations on GPUs that a program records in a graph and replays. As gpu_kernels_test.cpp on the fake driver, or on real GPUs.

#include <barrier>
#include <optional>
#include <string>
#include <vector>

#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;

class GpuGraph : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_.gpus() < 2) GTEST_SKIP() << "fewer than two GPUs here";
    cuda_.setKernels(&horing::test::emulatedKernels());
    comms_ = makeCommunicators(2, Meeting::kInitAll);
  }
  void TearDown() override {
    if (comms_.empty()) return;
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    cuda_.setKernels(nullptr);
  }
  const FakeCuda cuda_;
  std::vector<horingComm_t> comms_;
};

// Each replay reads the scalar anew.
TEST_F(GpuGraph, ReplaysReadAScalarOnTheGpu) {
  std::barrier all_here(2);  // no thread may allocate or query while another thread records
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms_[static_cast<size_t>(rank)];
    const GpuVector<float> data(cuda_, rank, std::vector<float>(3000, 1)), scalar(cuda_, rank, {2});
    const GpuStream stream(cuda_, rank);
    const CurrentGpu current(cuda_, rank);
    horingRedOp_t op;
    EXPECT_HORING(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarDevice, comm));
    all_here.arrive_and_wait();
    const RecordedGraph graph(cuda_, stream, [&] {
      EXPECT_HORING(horingAllReduce(data.data(), data.data(), 3000, horingFloat, op, comm, stream.get()));
    });
    all_here.arrive_and_wait();
    float expected = 1;
    for (const float factor : {2.0f, 3.0f, 0.5f}) {
      scalar.write({factor});
      graph.launch();
      stream.synchronize();
      expected *= 2 * factor;
      EXPECT_EQ(data.read(), std::vector<float>(3000, expected));
    }
    ASSERT_HORING(horingRedOpDestroy(op, comm));
  });
}

// What a stream records runs again at every replay, without a call of the host.
TEST_F(GpuGraph, ReplaysOperations) {
  replaySums(cuda_, comms_);
}

// A graph may have calls of one communicator on several streams: its kernels use the same queues, so they must not run at once. Another
// graph may be recorded in between.
TEST_F(GpuGraph, RunsCallsOnSeveralStreamsOfOneGraphInTheirOrder) {
  std::barrier all_here(2);  // no thread may allocate or query while another thread records
  onEveryRank(2, [&](int rank) {
    constexpr size_t kLong = 100'000;  // more than the parts of one call take, so that both meet at queues
    const horingComm_t comm = comms_[static_cast<size_t>(rank)];
    const GpuVector<int64_t> ones(cuda_, rank, std::vector<int64_t>(kLong, 1)),
        threes(cuda_, rank, std::vector<int64_t>(kLong, 3)), fives(cuda_, rank, {5});
    const GpuStream stream(cuda_, rank), side(cuda_, rank), other(cuda_, rank);
    const CurrentGpu current(cuda_, rank);
    void* event = nullptr;
    EXPECT_EQ(cuda_.call<int(void**, unsigned int)>("cuEventCreate")(&event, 0), 0);
    const auto order = [&](const GpuStream& first, const GpuStream& then) {
      EXPECT_EQ(cuda_.call<int(void*, void*)>("cuEventRecord")(event, first.get()), 0);
      EXPECT_EQ(cuda_.call<int(void*, void*, unsigned int)>("cuStreamWaitEvent")(then.get(), event, 0), 0);
    };
    const auto add = [&](const GpuVector<int64_t>& data, size_t count, const GpuStream& on) {
      EXPECT_HORING(horingAllReduce(data.data(), data.data(), count, horingInt64, horingSum, comm, on.get()));
    };
    all_here.arrive_and_wait();
    std::optional<RecordedGraph> in_between;
    const RecordedGraph graph(cuda_, stream, [&] {
      order(stream, side);
      add(ones, kLong, stream);
      in_between.emplace(cuda_, other, [&] { add(fives, 1, other); });
      add(threes, kLong, side);
      order(side, stream);
    });
    all_here.arrive_and_wait();
    for (int replay = 0; replay < 3; ++replay) graph.launch();
    in_between->launch();
    for (const GpuStream* const each : {&stream, &other}) each->synchronize();
    EXPECT_EQ(ones.read(), std::vector<int64_t>(kLong, 8));
    EXPECT_EQ(threes.read(), std::vector<int64_t>(kLong, 24));
    EXPECT_EQ(fives.read(), std::vector<int64_t>{10});
    EXPECT_EQ(cuda_.call<int(void*)>("cuEventDestroy_v2")(event), 0);
  });
}

// Of two graphs and of calls outside, each on a stream of its own, on one buffer. The program does not order them.
TEST_F(GpuGraph, IsReplayedInTheOrderOfTheCalls) {
  std::barrier all_here(2);  // no thread may allocate or query while another thread records
  onEveryRank(2, [&](int rank) {
    constexpr size_t kLong = 20'000;
    const horingComm_t comm = comms_[static_cast<size_t>(rank)];
    const GpuVector<int64_t> data(cuda_, rank, std::vector<int64_t>(kLong, 1));
    const GpuStream one(cuda_, rank), two(cuda_, rank), outside(cuda_, rank);
    const CurrentGpu current(cuda_, rank);
    const auto twice = [&](const GpuStream& stream) {
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), kLong, horingInt64, horingSum, comm, stream.get()));
    };
    twice(outside);
    all_here.arrive_and_wait();
    const RecordedGraph graph_one(cuda_, one, [&] { twice(one), twice(one); });
    const RecordedGraph graph_two(cuda_, two, [&] { twice(two); });
    all_here.arrive_and_wait();
    graph_one.instantiate();
    graph_two.instantiate();
    all_here.arrive_and_wait();
    for (int round = 0; round < 4; ++round) {
      graph_one.launch();
      twice(outside);
      graph_two.launch();
      graph_one.launch();
      twice(outside);
    }
    for (const GpuStream* const stream : {&one, &two, &outside}) stream->synchronize();
    EXPECT_EQ(data.read(), std::vector<int64_t>(kLong, int64_t{1} << (1 + 4 * 7)));
  });
}

// The kernel of rank 0 waits for a replay that rank 1 never makes. It is ended before its memory is freed.
TEST(GpuReplay, EndsWhenTheCommunicatorIsDestroyed) {
  const FakeCuda cuda;
  if (FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
  cuda.setKernels(&horing::test::emulatedKernels());
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  const GpuVector<float> data(cuda, 0, std::vector<float>(8, 1)), other(cuda, 1, std::vector<float>(8, 1));
  const GpuStream stream(cuda, 0), side(cuda, 1);
  onEveryRank(2, [&](int rank) {
    float* const at = (rank == 0 ? data : other).data();
    EXPECT_HORING(
        horingAllReduce(at, at, 8, horingFloat, horingSum, comms[static_cast<size_t>(rank)], nullptr));
  });
  {
    const CurrentGpu current(cuda, 0);
    const RecordedGraph graph(cuda, stream, [&] {
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comms[0], stream.get()));
    });
    graph.launch();
    for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
    stream.synchronize();
  }
  cuda.setKernels(nullptr);
}

// The error names the cause, and the communicator can still be used.
TEST(GpuRecording, ThatWasBrokenOffRefusesCalls) {
  const FakeCuda cuda;
  if (FakeCuda::isReal()) GTEST_SKIP() << "a recording that ends in an error is no graph to be made";
  cuda.setKernels(&horing::test::emulatedKernels());
  std::vector<horingComm_t> comms = makeCommunicators(1, Meeting::kInitAll);
  const GpuVector<int64_t> data(cuda, 0, {1, 2, 3});
  const GpuStream stream(cuda, 0);
  const CurrentGpu current(cuda, 0);
  const auto add = [&] {
    return horingAllReduce(data.data(), data.data(), 3, horingInt64, horingSum, comms[0], stream.get());
  };
  ASSERT_HORING(add());
  stream.synchronize();
  ASSERT_EQ(cuda.call<int(void*, int)>("cuStreamBeginCapture_v2")(stream.get(), RecordedGraph::kGlobal), 0);
  unsigned long long allocated = 0;
  EXPECT_NE(cuda.call<int(unsigned long long*, size_t)>("cuMemAlloc_v2")(&allocated, 64), 0);
  EXPECT_EQ(add(), horingInvalidUsage);
  EXPECT_NE(std::string(horingGetLastError(comms[0])).find("broke the recording off"), std::string::npos)
      << horingGetLastError(comms[0]);
  void* graph = nullptr;
  EXPECT_NE(cuda.call<int(void*, void**)>("cuStreamEndCapture")(stream.get(), &graph), 0);
  EXPECT_HORING(add());
  stream.synchronize();
  EXPECT_EQ(data.read(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_HORING(horingCommDestroy(comms[0]));
  cuda.setKernels(nullptr);
}

}  // namespace
