// Memory of GPUs through NCCL's interface. Emulated; a program of its own, since a driver that is loaded stays.
#include <cstring>

#include "clients.h"
#include "fake_cuda/fake_gpu.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;

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

}  // namespace
