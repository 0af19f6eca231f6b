// Memory of GPUs through NCCL's interface. Emulated; a program of its own, since a driver that is loaded stays.
#include <atomic>
#include <chrono>
#include <cstring>

#include "clients.h"
#include "fake_cuda/fake_gpu.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

TEST(NcclGpu, MemoryIsTheCurrentGpusOnceThereIsADriver) {
  void* of_host = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&of_host, 4096));
  std::memset(of_host, 1, 4096);

  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  constexpr int kRanks = 2;
  constexpr size_t kCount = 1000;
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_NCCL(ncclCommInitAll(comms.data(), kRanks, nullptr));
  onEveryRank(kRanks, [&](int rank) {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    const CurrentGpu current(cuda, rank);
    void* memory = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&memory, kCount * sizeof(float)));
    auto* const data = reinterpret_cast<float*>(cuda.dataAt(memory));
    ASSERT_NE(data, nullptr);
    for (size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(rank + 1);
    EXPECT_NCCL(ncclAllReduce(memory, memory, kCount, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(data[kCount - 1], 3);
    int device = -1;
    EXPECT_NCCL(ncclCommCuDevice(comm, &device));
    EXPECT_EQ(device, rank);
    EXPECT_NCCL(ncclMemFree(memory));
    EXPECT_TRUE(refuses(ncclMemFree(memory), ncclInvalidArgument, "horingMemAlloc")) << "freed before";
    // What cudaMalloc gave.
    unsigned long long of_cuda = 0;
    ASSERT_EQ(cuda.call<int(unsigned long long*, size_t)>("cuMemAlloc_v2")(&of_cuda, 4096), 0);
    EXPECT_NCCL(ncclMemFree(reinterpret_cast<void*>(of_cuda)));
  });
  destroyAll(comms);
  EXPECT_NCCL(ncclMemFree(of_host));
  // Without a context, as where CUDA's runtime makes one with the first call.
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, 4096));
  EXPECT_NE(cuda.dataAt(memory), nullptr);
  EXPECT_NCCL(ncclMemFree(memory));
  cuda.fail("cuMemAlloc", 2);
  EXPECT_TRUE(refuses(ncclMemAlloc(&memory, 4096), ncclUnhandledCudaError, "no 4096 bytes"));
  cuda.fail(nullptr, 0);
}

// Read when the operation's turn on its stream has come.
TEST(NcclGpu, AScalarMayBeOnTheGpu) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const std::vector<ncclComm_t> comms = meet(2);
  onEveryRank(2, [&](int rank) {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    const CurrentGpu current(cuda, rank);
    const GpuVector<float> scalar(cuda, rank, std::vector<float>(1, 0)),
        data(cuda, rank, std::vector<float>(8, 1));
    const PinnedVector<float> three(cuda, rank, std::vector<float>(1, 3));
    const GpuStream stream(cuda, rank);
    std::atomic<bool> gate{false};
    ncclRedOp_t op;
    ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, scalar.data(), ncclFloat, ncclScalarDevice, comm));
    stream.waitFor(gate);
    scalar.writeOn(stream, three);
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), 8, ncclFloat, op, comm,
                              static_cast<cudaStream_t>(stream.get())));
    EXPECT_NCCL(ncclRedOpDestroy(op, comm));
    gate = true;
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(8, 6));
  });
  destroyAll(comms);
}

// The other rank never comes: whatever is called on a stream returns, the first time, too, and an abort ends what waits there.
TEST(NcclGpu, NoCallOnAStreamWaitsForAnotherRank) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const Variable soon("HORING_TIMEOUT_MS", "20000");  // of a call that waits
  for (const bool is_by_id : {true, false}) {
    std::vector<ncclComm_t> comms(2);
    if (is_by_id) {
      comms = meet(2);
    } else {
      ASSERT_NCCL(ncclCommInitAll(comms.data(), 2, nullptr));
    }
    const CurrentGpu current(cuda, 0);
    const GpuVector<float> data(cuda, 0, std::vector<float>(1000, 1)), all(cuda, 0, std::vector<float>(2000));
    const PinnedVector<float> pinned(cuda, 0, 1000);
    const GpuStream stream(cuda, 0);
    auto* const on = static_cast<cudaStream_t>(stream.get());
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), 1000, ncclFloat, ncclSum, comms[0], on));
    EXPECT_NCCL(ncclAllGather(data.data(), all.data(), 1000, ncclFloat, comms[0], on));
    EXPECT_NCCL(ncclSend(data.data(), 1000, ncclFloat, 1, comms[0], on));
    EXPECT_NCCL(ncclBroadcast(pinned.data(), pinned.data(), 1000, ncclFloat, 1, comms[0], on));
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclSend(data.data(), 1000, ncclFloat, 1, comms[0], on));
    EXPECT_NCCL(ncclRecv(all.data(), 1000, ncclFloat, 1, comms[0], on));
    EXPECT_NCCL(ncclReduceScatter(all.data(), data.data(), 1000, ncclFloat, ncclSum, comms[0], on));
    EXPECT_NCCL(ncclGroupEnd());
    EXPECT_FALSE(stream.idle());
    std::thread([&] { EXPECT_NCCL(ncclCommAbort(comms[0])); }).join();
    stream.synchronize();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
    EXPECT_NCCL(ncclCommAbort(comms[1]));
  }
}

}  // namespace
