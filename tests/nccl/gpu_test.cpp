// GPU memory through NCCL's interface. Emulated; a separate program, since a loaded driver stays.
#include <atomic>
#include <chrono>
#include <cstring>

#include "clients.h"
#include "emulated_kernels.h"
#include "fake_cuda/fake_gpu.h"
#include "log_lines.h"
#include "nccl_device.h"

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
    GpuStream::ofDefault(cuda).synchronize();
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

// Not the rank's number, nor the first GPU's.
TEST(NcclGpu, TheLogNamesTheGpuOfARank) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const NcclLog log;
  ncclUniqueId id;
  std::vector<ncclComm_t> comms(2);
  ASSERT_NCCL(ncclGetUniqueId(&id));
  onEveryRank(2, [&](int rank) {
    const CurrentGpu current(cuda, 1 - rank);
    EXPECT_NCCL(ncclCommInitRank(&comms[static_cast<size_t>(rank)], 2, id, rank));
  });
  expectInits(log, "ncclCommInitRank", comms);
  const std::vector<InitLine> lines = log.inits();
  EXPECT_EQ(lines.size(), 4U);
  for (const InitLine& line : lines) {
    EXPECT_EQ(line.gpu, 1 - line.rank);
    EXPECT_EQ(line.shown_gpu, 1 - line.rank);
    EXPECT_EQ(line.bus, line.gpu == 0 ? "3b000" : "3c000");
  }
  // What the communicator itself says, too.
  EXPECT_NE(log.text().find("[1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via "), std::string::npos)
      << log.text();
  destroyAll(comms);
}

TEST(NcclGpu, WindowsAreInMemoryOfTheHostWhereGpusDoNotReachEachOther) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const std::vector<ncclComm_t> comms = meet(2);
  onEveryRank(2, [&](int rank) {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    const CurrentGpu current(cuda, rank);
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    EXPECT_NCCL(ncclCommQueryProperties(comm, &properties));
    EXPECT_FALSE(properties.hostRmaSupport);
    std::vector<float> on_host(16, -1);
    const GpuVector<float> on_gpu(cuda, rank, std::vector<float>(8, 1));
    // One rank's on a GPU is enough.
    void* const mixed = rank == 0 ? static_cast<void*>(on_gpu.data()) : on_host.data();
    ncclWindow_t window = reinterpret_cast<ncclWindow_t>(&on_host);
    EXPECT_NCCL(ncclCommWindowRegister(comm, mixed, 32, &window, NCCL_WIN_COLL_SYMMETRIC));
    EXPECT_EQ(window, nullptr);
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window));
    EXPECT_NCCL(ncclCommWindowRegister(comm, on_host.data(), 64, &window, NCCL_WIN_COLL_SYMMETRIC));
    ASSERT_NE(window, nullptr);
    // NULL is CUDA's default stream, which orders them.
    const GpuStream on_default = GpuStream::ofDefault(cuda);
    ncclWaitSignalDesc_t wait = {2, 1 - rank, 0, 0};
    EXPECT_NCCL(ncclPutSignal(on_gpu.data(), 8, ncclFloat, 1 - rank, window, 0, 0, 0, 0, comm, nullptr));
    std::atomic<bool> gate{false};
    on_default.waitFor(gate);
    const std::vector<float> sent(8, static_cast<float>(rank));
    EXPECT_NCCL(ncclPutSignal(sent.data(), 8, ncclFloat, 1 - rank, window, 32, 0, 0, 0, comm, nullptr));
    EXPECT_NCCL(ncclWaitSignal(1, &wait, comm, nullptr));
    EXPECT_FALSE(on_default.idle());
    gate = true;
    on_default.synchronize();
    EXPECT_EQ(std::vector<float>(on_host.begin(), on_host.begin() + 8), std::vector<float>(8, 1));
    EXPECT_EQ(std::vector<float>(on_host.begin() + 8, on_host.end()),
              std::vector<float>(8, static_cast<float>(1 - rank)));
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window));
  });
  destroyAll(comms);
}

// Nothing is launched, on a stream or in a group; the communicator's own timeout is no other one.
TEST(NcclGpu, CallsHaveTheTimeoutAndTheAlgorithmOfTheirCommunicator) {
  const Variable timeout("HORING_TIMEOUT_MS", "20000");
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const std::vector<ncclComm_t> comms = meet(1);
  const CurrentGpu current(cuda, 0);
  const GpuVector<float> data(cuda, 0, std::vector<float>(8, 1));
  const GpuStream stream(cuda, 0);
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  const auto add = [&] {
    return ncclAllReduceConfig(data.data(), data.data(), 8, ncclFloat, ncclSum, comms[0],
                               static_cast<cudaStream_t>(stream.get()), &config);
  };
  ncclConfigExt_t option{nullptr, {NCCL_VENDOR_HORING, NCCL_HORING_TIMEOUT_MS}, {}};
  option.val.i = 15'000;
  config.ext = &option;
  EXPECT_TRUE(refuses(add(), ncclInvalidUsage, "the buffers are in memory of a GPU"));
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_TRUE(refuses(add(), ncclInvalidUsage, "the buffers are in memory of a GPU"));
  EXPECT_TRUE(refuses(ncclGroupEnd(), ncclInvalidUsage, "the buffers are in memory of a GPU"));
  option.val.i = 20'000;
  EXPECT_NCCL(add());
  config.algSelection = "ring";
  EXPECT_TRUE(refuses(add(), ncclInvalidUsage, "the buffers are in memory of a GPU"));
  // Also where the memory is pinned: the stream orders the call.
  const PinnedVector<float> pinned(cuda, 0, 8);
  EXPECT_TRUE(refuses(ncclAllReduceConfig(pinned.data(), pinned.data(), 8, ncclFloat, ncclSum, comms[0],
                                          static_cast<cudaStream_t>(stream.get()), &config),
                      ncclInvalidUsage, "or pinned, managed or none on a cudaStream_t"));
  config.forceAlgSelection = 0;
  EXPECT_NCCL(add());
  stream.synchronize();
  destroyAll(comms);
}

// With kernels, which each GPU has here.
TEST(NcclGpu, WindowsAreInMemoryOfGpusThatReachEachOther) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  cuda.setKernels(&horing::test::emulatedKernels());
  std::vector<ncclComm_t> comms(2);
  ASSERT_NCCL(ncclCommInitAll(comms.data(), 2, nullptr));
  onEveryRank(2, [&](int rank) {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    const CurrentGpu current(cuda, rank);
    void* memory = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&memory, 4096));
    auto* const part = static_cast<float*>(memory);
    ncclWindow_t window = nullptr;
    EXPECT_NCCL(ncclCommWindowRegister(comm, part, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    ASSERT_NE(window, nullptr);
    void* own = nullptr;
    EXPECT_NCCL(ncclWinGetUserPtr(comm, window, &own));
    EXPECT_EQ(own, memory);
    // From the window itself, as NCCL wants it.
    const GpuVector<float> sent(cuda, rank, std::vector<float>(8, static_cast<float>(rank)));
    ncclWaitSignalDesc_t wait = {2, 1 - rank, 0, 0};
    EXPECT_NCCL(ncclPutSignal(sent.data(), 8, ncclFloat, rank, window, 64, 0, 0, 0, comm, nullptr));
    for (const size_t at : {size_t{0}, size_t{32}})
      EXPECT_NCCL(ncclPutSignal(part + 16, 8, ncclFloat, 1 - rank, window, at, 0, 0, 0, comm, nullptr));
    EXPECT_NCCL(ncclWaitSignal(1, &wait, comm, nullptr));
    GpuStream::ofDefault(cuda).synchronize();
    std::vector<float> arrived(16);
    std::memcpy(arrived.data(), cuda.dataAt(part), 64);
    EXPECT_EQ(arrived, std::vector<float>(16, static_cast<float>(1 - rank)));
    EXPECT_NCCL(ncclCommWindowDeregister(comm, window));
    EXPECT_NCCL(ncclMemFree(memory));
  });
  destroyAll(comms);
  cuda.setKernels(nullptr);
}

// As with NCCL: on memory of a GPU NULL is the default stream of CUDA.
TEST(NcclGpu, TheDefaultStreamOrdersCallsAndDoesNotBlock) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const Variable soon("HORING_TIMEOUT_MS", "5000");  // of a call that waits
  const std::vector<ncclComm_t> comms = meet(2);
  onEveryRank(2, [&](int rank) {
    const ncclComm_t comm = comms[static_cast<size_t>(rank)];
    float on_host = 1;
    EXPECT_NCCL(ncclAllReduce(&on_host, &on_host, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(on_host, 2) << "complete on return, without a current GPU";
    const CurrentGpu current(cuda, rank);
    EXPECT_NCCL(ncclAllReduce(&on_host, &on_host, 1, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(on_host, 4) << "complete on return";
    EXPECT_NCCL(ncclAllReduce(&on_host, &on_host, 0, ncclFloat, ncclSum, comm, nullptr));
    const GpuVector<float> data(cuda, rank, std::vector<float>(8, 0));
    const PinnedVector<float> ones(cuda, rank, std::vector<float>(8, 1)), result(cuda, rank, 8);
    const GpuStream on_default = GpuStream::ofDefault(cuda);
    std::atomic<bool> gate{false};
    on_default.waitFor(gate);
    data.writeOn(on_default, ones);
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), 8, ncclFloat, ncclSum, comm, nullptr));
    // An empty message goes together with one that is not.
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclSend(data.data(), 8, ncclFloat, 1 - rank, comm, nullptr));
    EXPECT_NCCL(ncclRecv(data.data(), 8, ncclFloat, 1 - rank, comm, nullptr));
    EXPECT_NCCL(ncclSend(nullptr, 0, ncclFloat, 1 - rank, comm, nullptr));
    EXPECT_NCCL(ncclRecv(nullptr, 0, ncclFloat, 1 - rank, comm, nullptr));
    EXPECT_NCCL(ncclGroupEnd());
    // Pinned memory is ordered, too.
    data.readOn(on_default, result);
    EXPECT_NCCL(ncclAllReduce(result.data(), result.data(), 8, ncclFloat, ncclSum, comm, nullptr));
    EXPECT_FALSE(on_default.idle());
    gate = true;
    on_default.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(8, 2));
    EXPECT_EQ(result.values(), std::vector<float>(8, 4));
  });
  destroyAll(comms);
}

TEST(NcclGpu, ASuspendedCommunicatorGivesItsPinnedMemoryBack) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  std::vector<ncclComm_t> comms(2);
  ASSERT_NCCL(ncclCommInitAll(comms.data(), 2, nullptr));
  const auto expectWorks = [&] {
    onEveryRank(2, [&](int rank) {
      const CurrentGpu current(cuda, rank);
      const GpuVector<float> data(cuda, rank, std::vector<float>(1000, 1));
      EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), 1000, ncclFloat, ncclSum,
                                comms[static_cast<size_t>(rank)], nullptr));
      GpuStream::ofDefault(cuda).synchronize();
      EXPECT_EQ(data.read(), std::vector<float>(1000, 2));
      int device = -1;
      EXPECT_NCCL(ncclCommCuDevice(comms[static_cast<size_t>(rank)], &device));
      EXPECT_EQ(device, rank);
    });
  };
  expectWorks();
  const int freed = cuda.calls("cuMemFreeHost");
  ASSERT_NCCL(ncclGroupStart());
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_GT(cuda.calls("cuMemFreeHost"), freed);
  ASSERT_NCCL(ncclGroupStart());
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommResume(comm));
  ASSERT_NCCL(ncclGroupEnd());
  expectWorks();
  destroyAll(comms);
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

// Each on a node and a GPU of its own.
std::vector<ncclComm_t> meetOnNodes(const FakeCuda& cuda, int ranks) {
  const Variable transports("HORING_TRANSPORTS", "shm,socket");
  std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    const CurrentGpu current(cuda, rank);
    const Variable node("NCCL_HOSTID", "node" + std::to_string(rank));
    EXPECT_NCCL(ncclCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank));
  }
  EXPECT_NCCL(ncclGroupEnd());
  return comms;
}

// The other rank never comes: whatever is called on a stream returns, the first time, too, and an abort ends what waits there.
TEST(NcclGpu, NoCallOnAStreamWaitsForAnotherRank) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  const Variable soon("HORING_TIMEOUT_MS", "20000");  // of a call that waits
  enum class Way { kById, kOnNodes, kAtOnce };
  for (const Way way : {Way::kById, Way::kOnNodes, Way::kAtOnce}) {
    std::vector<ncclComm_t> comms(2);
    cuda.setKernels(way == Way::kOnNodes ? &horing::test::emulatedKernels() : nullptr);
    if (way == Way::kById) {
      comms = meet(2);
    } else if (way == Way::kOnNodes) {
      comms = meetOnNodes(cuda, 2);
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
    const GpuStream waiting(cuda, 0);
    ncclWaitSignalDesc_t wait = {1, 1, 0, 0};
    EXPECT_NCCL(ncclWaitSignal(1, &wait, comms[0], static_cast<cudaStream_t>(waiting.get())));
    EXPECT_NCCL(ncclSignal(1, 0, 0, 0, comms[0], on));
    EXPECT_FALSE(stream.idle());
    EXPECT_FALSE(waiting.idle());
    std::thread([&] { EXPECT_NCCL(ncclCommAbort(comms[0])); }).join();
    stream.synchronize();
    waiting.synchronize();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
    EXPECT_NCCL(ncclCommAbort(comms[1]));
  }
}

// Between nodes, too, whose kernels need each other's addresses. The other rank never comes.
TEST(NcclGpu, AFirstCallThatAStreamRecordsDoesNotWaitAndItsReplayEndsWithAnAbort) {
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  cuda.setKernels(&horing::test::emulatedKernels());
  const Variable soon("HORING_TIMEOUT_MS", "30000");
  const std::vector<ncclComm_t> comms = meetOnNodes(cuda, 2);
  const CurrentGpu current(cuda, 0);
  const GpuVector<float> data(cuda, 0, std::vector<float>(8, 1));
  const GpuStream stream(cuda, 0);
  auto* const on = static_cast<cudaStream_t>(stream.get());
  const auto begun = std::chrono::steady_clock::now();
  constexpr int kOfThisThread = 1;
  ASSERT_EQ(cuda.call<int(void*, int)>("cuStreamBeginCapture_v2")(on, kOfThisThread), 0);
  EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), 8, ncclFloat, ncclSum, comms[0], on));
  void *graph = nullptr, *ready = nullptr;
  ASSERT_EQ(cuda.call<int(void*, void**)>("cuStreamEndCapture")(on, &graph), 0);
  ASSERT_EQ(
      cuda.call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&ready, graph, 0), 0);
  ASSERT_EQ(cuda.call<int(void*, void*)>("cuGraphLaunch")(ready, on), 0);
  EXPECT_FALSE(stream.idle());
  std::thread([&] { EXPECT_NCCL(ncclCommAbort(comms[0])); }).join();
  stream.synchronize();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15));
  EXPECT_EQ(cuda.call<int(void*)>("cuGraphExecDestroy")(ready), 0);
  EXPECT_EQ(cuda.call<int(void*)>("cuGraphDestroy")(graph), 0);
  EXPECT_NCCL(ncclCommAbort(comms[1]));
  cuda.setKernels(nullptr);
}

}  // namespace
