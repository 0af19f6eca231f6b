// Failures of operations on GPU memory that hosts carry, with the driver of gpu_buffers_test.cpp.
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "../scarce_memory.h"
#include "emulated_kernels.h"
#include "fake_cuda/fake_gpu.h"
#include "gpu_ranks.h"
#include "ways.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::ForeignMemory;
using horing::test::GpuStream;
using horing::test::GpuVector;

constexpr int kGpu = 1;
constexpr int64_t kForEverUs = std::numeric_limits<int64_t>::max();

class GpuTrouble : public testing::Test {
 protected:
  void SetUp() override { comms_ = makeCommunicators(2, Meeting::kInitAll); }
  void TearDown() override {
    cuda_.fail(nullptr, 0);
    cuda_.slowCopies(0);
    std::erase(comms_, nullptr);
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  }
  void end(int rank) {
    EXPECT_HORING(horingCommAbort(std::exchange(comms_[static_cast<size_t>(rank)], nullptr)));
  }
  horingResult_t add(int rank, float* data, void* stream) {
    return horingAllReduce(data, data, 8, horingFloat, horingSum, comms_[static_cast<size_t>(rank)], stream);
  }
  horingResult_t asyncError(int rank) {
    horingResult_t error = horingSuccess;
    EXPECT_HORING(horingCommGetAsyncError(comms_[static_cast<size_t>(rank)], &error));
    return error;
  }
  const FakeCuda cuda_;
  std::vector<horingComm_t> comms_;
  const GpuVector<float> here_{cuda_, kGpu, std::vector<float>(8, 1)},
      there_{cuda_, kGpu, std::vector<float>(8, 2)};
};

// Fails each allocation in turn: the stream continues, and both ranks get the error.
TEST_F(GpuTrouble, OfACallThatRunsOutOfMemoryFreesTheStream) {
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; ++enough_for) {
    std::erase(comms_, nullptr);
    for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
    comms_ = makeCommunicators(2, Meeting::kInitAll);
    here_.write(std::vector<float>(8, 1));
    const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
    // So that the call in question finds all made that is made once.
    EXPECT_HORING(add(0, here_.data(), stream.get()));
    EXPECT_HORING(add(1, there_.data(), other.get()));
    stream.synchronize();
    other.synchronize();
    allocations_left = enough_for;
    const horingResult_t ours = add(0, here_.data(), stream.get());
    ran_out = allocations_left < 0;
    allocations_left = kNever;
    EXPECT_EQ(ours == horingSuccess, !ran_out) << "memory for " << enough_for;
    if (asyncError(0) == horingSuccess && ran_out) end(0);  // nothing was begun
    // The error may have arrived before.
    EXPECT_TRUE(add(1, there_.data(), other.get()) == horingSuccess || ran_out);
    stream.synchronize();
    other.synchronize();
  }
}

TEST_F(GpuTrouble, OneThreadDrivesSeveralRanksInAGroup) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  for (int round = 0; round < 2; ++round) {
    ASSERT_HORING(horingGroupStart());
    ASSERT_HORING(add(0, here_.data(), round == 0 ? stream.get() : nullptr));
    ASSERT_HORING(add(1, there_.data(), round == 0 ? other.get() : nullptr));
    ASSERT_HORING(horingGroupEnd());
  }
  stream.synchronize();
  other.synchronize();
  EXPECT_EQ(here_.read(), std::vector<float>(8, 6));
  EXPECT_EQ(there_.read(), std::vector<float>(8, 6));
  int device = -1;
  EXPECT_HORING(horingCommCuDevice(comms_[1], &device));
  EXPECT_EQ(device, kGpu);
}

// Operations that wait on a CUDA stream come after the others, which all ranks have called by then.
TEST_F(GpuTrouble, IsNoneInAGroupOfOneThreadOnStreamsOfBothKinds) {
  const GpuStream streams[] = {GpuStream(cuda_, kGpu), GpuStream(cuda_, kGpu)};
  horingStream_t own[2] = {};
  for (horingStream_t& each : own) ASSERT_HORING(horingStreamCreate(&each));
  ASSERT_HORING(horingGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    for (int round = 0; round < 2; ++round) {
      float* const data = rank == 0 ? here_.data() : there_.data();
      EXPECT_HORING(add(rank, data, own[rank]));
      EXPECT_HORING(add(rank, data, streams[rank].get()));
    }
  ASSERT_HORING(horingGroupEnd());
  for (const horingStream_t each : own) {
    EXPECT_HORING(horingStreamSynchronize(each));
    EXPECT_HORING(horingStreamDestroy(each));
  }
  for (const GpuStream& stream : streams) stream.synchronize();
  EXPECT_EQ(here_.read(), there_.read());
}

TEST_F(GpuTrouble, IsNamedWhereBuffersOrStreamsDoNotGoTogether) {
  const GpuStream stream(cuda_, kGpu), stream_elsewhere(cuda_, 2);
  const GpuVector<float> elsewhere(cuda_, 2, std::vector<float>(8));
  std::vector<float> host(8);
  const horingComm_t comm = comms_[0];
  EXPECT_TRUE(refuses(horingAllReduce(host.data(), here_.data(), 8, horingFloat, horingSum, comm, nullptr),
                      horingInvalidUsage, "in host memory and recvbuff"));
  EXPECT_TRUE(
      refuses(horingAllReduce(here_.data(), elsewhere.data(), 8, horingFloat, horingSum, comm, nullptr),
              horingInvalidUsage, "is on GPU 1 and recvbuff"));
  EXPECT_TRUE(refuses(add(0, host.data(), stream.get()), horingInvalidUsage,
                      "a stream of CUDA is for buffers on a GPU"));
  EXPECT_TRUE(refuses(add(0, here_.data(), stream_elsewhere.get()), horingInvalidUsage, "is one of GPU 2"));
  EXPECT_TRUE(
      refuses(add(0, elsewhere.data(), stream_elsewhere.get()), horingInvalidUsage, "works on GPU 1"));
  void* graph = nullptr;
  ASSERT_EQ(cuda_.call<int(void*, int)>("cuStreamBeginCapture_v2")(stream.get(), 0), 0);
  EXPECT_TRUE(refuses(add(0, here_.data(), stream.get()), horingInvalidUsage, "records a graph"));
  ASSERT_EQ(cuda_.call<int(void*, void**)>("cuStreamEndCapture")(stream.get(), &graph), 0);
  EXPECT_EQ(cuda_.call<int(void*)>("cuGraphDestroy")(graph), 0);
  std::vector<float> received(8);
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingSend(here_.data(), 8, horingFloat, 0, comm, stream.get()));
  EXPECT_HORING(horingRecv(received.data(), 8, horingFloat, 0, comm, nullptr));
  EXPECT_TRUE(refuses(horingGroupEnd(), horingInvalidUsage, "streams of one kind"));
  // None of these sticks.
  onEveryRank(2, [&](int rank) {
    EXPECT_HORING(add(rank, rank == 0 ? here_.data() : there_.data(), rank == 0 ? stream.get() : nullptr));
  });
  stream.synchronize();
  EXPECT_EQ(here_.read(), std::vector<float>(8, 3));
}

// A call that is refused leaves the communicator as it was: its first operation may be on another GPU.
TEST_F(GpuTrouble, OfMemoryOfAnotherContextBindsToNoGpu) {
  const ForeignMemory foreign(cuda_, 2, 4096);
  const GpuVector<float> elsewhere(cuda_, 2, std::vector<float>(8));
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms_[static_cast<size_t>(rank)];
    horingRedOp_t op;
    ASSERT_HORING(horingRedOpCreatePreMulSum(&op, foreign.data(), horingFloat, horingScalarDevice, comm));
    const auto call = [&](float* receive, horingRedOp_t by) {
      return horingAllReduce(elsewhere.data(), receive, 8, horingFloat, by, comm, nullptr);
    };
    const auto expectRefused = [&](horingResult_t result, const char* name) {
      EXPECT_TRUE(refuses(result, horingInvalidUsage, name));
      EXPECT_TRUE(
          refuses(result, horingInvalidUsage, "belongs to another context of GPU 2 than its primary one"));
    };
    expectRefused(call(foreign.data(), horingSum), "recvbuff");
    expectRefused(call(elsewhere.data(), op), "the scalar of op");
    EXPECT_HORING(horingRedOpDestroy(op, comm));
    EXPECT_HORING(add(rank, rank == 0 ? here_.data() : there_.data(), nullptr));
  });
  EXPECT_EQ(here_.read(), std::vector<float>(8, 3));
}

// As from cuMemCreate and cudaMallocAsync, next to memory of the primary context.
TEST_F(GpuTrouble, IsNotMemoryOfNoContext) {
  float sums[8] = {};
  cuda_.setDeviceMemory(sums, sizeof sums, kGpu);
  onEveryRank(2, [&](int rank) {
    float* const data = rank == 0 ? here_.data() : there_.data();
    EXPECT_HORING(horingAllReduce(data, rank == 0 ? sums : data, 8, horingFloat, horingSum,
                                  comms_[static_cast<size_t>(rank)], nullptr));
  });
  EXPECT_EQ(sums[7], 3.0F);
}

TEST_F(GpuTrouble, AnOperationAsksTheDriverOnceForEachBuffer) {
  const GpuVector<float> scalar(cuda_, kGpu, {2}), sums(cuda_, kGpu, std::vector<float>(8));
  const int before = cuda_.calls("cuPointerGetAttributes");
  onEveryRank(2, [&](int rank) {
    const horingComm_t comm = comms_[static_cast<size_t>(rank)];
    const float* const data = rank == 0 ? here_.data() : there_.data();
    float* const result = rank == 0 ? sums.data() : there_.data();
    horingRedOp_t op;
    ASSERT_HORING(horingRedOpCreatePreMulSum(&op, scalar.data(), horingFloat, horingScalarDevice, comm));
    EXPECT_HORING(horingAllReduce(data, result, 8, horingFloat, op, comm, nullptr));
    EXPECT_HORING(horingRedOpDestroy(op, comm));
  });
  EXPECT_EQ(sums.read(), std::vector<float>(8, 6));
  // Rank 0 has three, and rank 1, whose result is where its data are, has two.
  EXPECT_EQ(cuda_.calls("cuPointerGetAttributes") - before, 5);
}

TEST_F(GpuTrouble, IsManagedMemoryOnAStream) {
  alignas(64) float managed[8] = {};
  cuda_.setManagedMemory(managed, sizeof managed, kGpu);
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  EXPECT_HORING(add(0, managed, stream.get()));
  EXPECT_HORING(add(1, there_.data(), other.get()));
  stream.synchronize();
  EXPECT_EQ(managed[7], 2.0F);
}

TEST_F(GpuTrouble, AbortFreesTheStream) {
  const GpuStream stream(cuda_, kGpu), behind(cuda_, kGpu);
  EXPECT_HORING(add(0, here_.data(), stream.get()));
  EXPECT_HORING(add(0, here_.data(), behind.get()));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(stream.idle());
  end(0);
  stream.synchronize();
  behind.synchronize();
}

TEST_F(GpuTrouble, AbortDoesNotWaitForAStreamThatIsHeldUp) {
  const GpuStream stream(cuda_, kGpu);
  std::atomic<bool> gate{false};
  stream.waitFor(gate);
  EXPECT_HORING(add(0, here_.data(), stream.get()));
  end(0);
  EXPECT_FALSE(stream.idle());
  gate = true;
  stream.synchronize();
}

// Nor does a call that is complete on return wait for ever, or leave its memory to the stream.
TEST_F(GpuTrouble, OfADefaultStreamThatIsHeldUpEndsAtTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  comms_ = makeCommunicators(2, Meeting::kInitAll);
  const CurrentGpu current(cuda_, kGpu);
  std::atomic<bool> gate{false};
  GpuStream::ofDefault(cuda_).waitFor(gate);
  EXPECT_TRUE(refuses(add(0, here_.data(), nullptr), horingTimeout, "something before it on the stream"));
  while (asyncError(1) == horingSuccess) std::this_thread::yield();
  EXPECT_TRUE(refuses(add(1, there_.data(), nullptr), horingRemoteError, "rank 0"));
  end(0);
  gate = true;
  GpuStream::ofDefault(cuda_).synchronize();
}

// The driver is asked once, behind the deadline, for it may keep the answer until other streams have gone on.
TEST_F(GpuTrouble, OfAGpuThatFailedUnderAStreamIsNamedAtTheDeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  comms_ = makeCommunicators(2, Meeting::kInitAll);
  const GpuStream stream(cuda_, kGpu);
  std::atomic<bool> gate{false};
  stream.waitFor(gate);
  const int looks = cuda_.calls("cuEventQuery");
  cuda_.fail("cuEventQuery", 700);
  EXPECT_HORING(add(0, here_.data(), stream.get()));
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
  EXPECT_EQ(cuda_.calls("cuEventQuery"), looks + 1);
  cuda_.fail(nullptr, 0);
  EXPECT_TRUE(refuses(add(0, here_.data(), stream.get()), horingUnhandledCudaError,
                      "rank 0: waiting for its stream on GPU 1"));
  gate = true;
  stream.synchronize();
}

TEST_F(GpuTrouble, OfAPeerFreesTheStream) {
  const GpuStream stream(cuda_, kGpu);
  EXPECT_HORING(add(0, here_.data(), stream.get()));
  end(1);
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
  EXPECT_TRUE(refuses(add(0, here_.data(), stream.get()), horingRemoteError, "rank 1"));
  stream.synchronize();
}

TEST_F(GpuTrouble, OfTheDriverReachesThePeers) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  EXPECT_HORING(add(1, there_.data(), other.get()));
  cuda_.fail("cuMemHostAlloc", 2, 2);  // the first two are made with the communicator's part of the GPU
  EXPECT_TRUE(
      refuses(add(0, here_.data(), stream.get()), horingUnhandledCudaError, "CUDA_ERROR_OUT_OF_MEMORY"));
  cuda_.fail(nullptr, 0);
  other.synchronize();
  while (asyncError(1) == horingSuccess) std::this_thread::yield();
  EXPECT_TRUE(refuses(add(1, there_.data(), other.get()), horingRemoteError, "rank 0"));
}

// The stream never waits for ever, whichever part of an operation it got.
TEST_F(GpuTrouble, OfTheDriverFreesTheStream) {
  const GpuStream stream(cuda_, kGpu);
  const GpuVector<float> large(cuda_, kGpu, std::vector<float>(4'000'000, 1));
  cuda_.fail("cuMemcpyAsync", 700, 4);
  EXPECT_TRUE(refuses(
      horingAllReduce(large.data(), large.data(), 4'000'000, horingFloat, horingSum, comms_[0], stream.get()),
      horingUnhandledCudaError, "700"));
  cuda_.fail(nullptr, 0);
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
}

// Its earlier work uses pinned memory, which exists for as long as the stream may access it.
TEST_F(GpuTrouble, OfTheDriverFreesNoMemoryUnderAStreamThatIsHeldUp) {
  const GpuStream stream(cuda_, kGpu);
  const GpuVector<float> large(cuda_, kGpu, std::vector<float>(4'000'000, 1));
  std::atomic<bool> gate{false};
  stream.waitFor(gate);
  cuda_.fail("cuMemcpyAsync", 700, 4);
  EXPECT_EQ(
      horingAllReduce(large.data(), large.data(), 4'000'000, horingFloat, horingSum, comms_[0], stream.get()),
      horingUnhandledCudaError);
  cuda_.fail(nullptr, 0);
  end(0);
  gate = true;
  stream.synchronize();
}

// Of a message from rank 0 to rank 1 that is not staged as a whole.
class GpuMessageTrouble : public GpuTrouble {
 protected:
  horingResult_t send(void* stream) {
    return horingSend(large_.data(), kLarge, horingFloat, 1, comms_[0], stream);
  }
  horingResult_t receive(void* stream) {
    return horingRecv(target_.data(), kLarge, horingFloat, 0, comms_[1], stream);
  }
  // Of operations that begin later.
  void shortenDeadlines() const {
    for (const horingComm_t comm : comms_)
      EXPECT_HORING(horingCommSetTimeout(comm, horing::test::kShortDeadlineMs));
  }
  static constexpr size_t kLarge = 4 << 20;
  const GpuVector<float> large_{cuda_, kGpu, filled(0, kLarge)},
      target_{cuda_, kGpu, std::vector<float>(kLarge, -7)};
};

TEST_F(GpuMessageTrouble, IsNoneAndCostsFewCopies) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  const int copies = cuda_.calls("cuMemcpyAsync"), looks = cuda_.calls("cuStreamQuery");
  EXPECT_HORING(send(stream.get()));
  EXPECT_HORING(receive(other.get()));
  stream.synchronize();
  other.synchronize();
  // By each of both ranks, of half a megabyte each.
  EXPECT_EQ(cuda_.calls("cuMemcpyAsync") - copies, 2 * 32);
  EXPECT_EQ(cuda_.calls("cuStreamQuery"), looks);
  EXPECT_EQ(target_.read(), filled(0, kLarge));
}

TEST_F(GpuMessageTrouble, WithACopyInTheMiddleIsNamed) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  cuda_.fail("cuMemcpyAsync", 700, 20, 1);
  EXPECT_HORING(send(stream.get()));
  EXPECT_HORING(receive(other.get()));
  stream.synchronize();
  other.synchronize();
  while (asyncError(0) == horingSuccess || asyncError(1) == horingSuccess) std::this_thread::yield();
  cuda_.fail(nullptr, 0);
  // Either rank may have got the error first.
  const bool sender_did = asyncError(0) == horingUnhandledCudaError;
  EXPECT_EQ(asyncError(sender_did ? 1 : 0), horingRemoteError);
  const char* const what = sender_did ? "rank 0, a message to rank 1: copying between GPU and host"
                                      : "rank 1, a message from rank 0: copying between GPU and host";
  EXPECT_TRUE(refuses(send(stream.get()), asyncError(0), what));
  EXPECT_TRUE(refuses(receive(other.get()), asyncError(1), what));
}

// Which is that copy's, not that of the whole call; and not the peer is named, which has not even called.
TEST_F(GpuMessageTrouble, WithACopyThatDoesNotEndIsNamedAtTheDeadline) {
  const Setting slots("HORING_TESTS_SLOTS", "32");
  for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  comms_ = makeCommunicators(2, Meeting::kInitAll);
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  EXPECT_HORING(send(stream.get()));
  EXPECT_HORING(receive(other.get()));
  stream.synchronize();
  other.synchronize();
  shortenDeadlines();
  const int copies = cuda_.calls("cuMemcpyAsync");
  cuda_.slowCopies(100'000);
  EXPECT_HORING(send(stream.get()));
  // On a machine that is busy enough the deadline passes in the first copies.
  while (cuda_.calls("cuMemcpyAsync") < copies + 4 && asyncError(0) == horingSuccess)
    std::this_thread::yield();
  cuda_.slowCopies(kForEverUs);  // the third, which was asked for when the first was done
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
  cuda_.slowCopies(0);
  EXPECT_TRUE(refuses(send(stream.get()), horingTimeout,
                      "rank 0, a message to rank 1: a copy between GPU 1 and the host did not end"));
  EXPECT_NE(receive(other.get()), horingSuccess);
}

// As where the program's first use of a kernel waits for all streams, and calls of the driver wait for that.
class HeldDriver : public GpuMessageTrouble {
 protected:
  // A message whose copies do not begin before its stream has come behind it.
  void sendHeld(const GpuStream& stream, const GpuStream& other) {
    // So that the link is there, and rank 1 need do nothing.
    EXPECT_HORING(send(stream.get()));
    EXPECT_HORING(receive(other.get()));
    stream.synchronize();
    other.synchronize();
    cuda_.holdCopies(&let_go_);
    EXPECT_HORING(send(stream.get()));
    stream.set(let_go_);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(stream.idle());
  }
  void TearDown() override {
    cuda_.holdCopies(nullptr);
    GpuMessageTrouble::TearDown();
  }
  std::atomic<bool> let_go_{false};
};

TEST_F(HeldDriver, IsLetGoBehindTheDeadline) {
  shortenDeadlines();
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  sendHeld(stream, other);
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
  EXPECT_TRUE(refuses(send(stream.get()), horingTimeout, "CUDA_MODULE_LOADING=EAGER"));
  // Later operations do not wait.
  stream.synchronize();
}

TEST_F(HeldDriver, IsLetGoByAnAbort) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  sendHeld(stream, other);
  end(0);
  stream.synchronize();
  other.synchronize();
}

// With the kernel of copies: hosts call no driver meanwhile.
class CopyKernel : public GpuMessageTrouble {
 protected:
  void SetUp() override {
    cuda_.setKernels(&horing::test::emulatedKernels());
    GpuMessageTrouble::SetUp();
  }
  void TearDown() override {
    cuda_.holdCopies(nullptr);
    GpuMessageTrouble::TearDown();
    cuda_.setKernels(nullptr);
  }

 private:
  const Setting path_{"HORING_GPU_PATH", "staged"};
};

// The kernel is loaded, and memory pinned, while another thread records a graph, which forbids both unless the thread declares them
// as not part of it.
TEST_F(CopyKernel, IsMadeWhileAnotherThreadRecords) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu), recorded(cuda_, kGpu);
  std::atomic<bool> records{false}, is_made{false};
  std::thread recorder([&] {
    const CurrentGpu current(cuda_, kGpu);
    const RecordedGraph graph(cuda_, recorded, [&] {
      records = true;
      while (!is_made) std::this_thread::yield();
    });
  });
  while (!records) std::this_thread::yield();
  const int launches = cuda_.launches();
  EXPECT_HORING(send(stream.get()));
  EXPECT_HORING(receive(other.get()));
  is_made = true;
  recorder.join();
  stream.synchronize();
  other.synchronize();
  EXPECT_EQ(cuda_.launches() - launches, 2);
  EXPECT_EQ(target_.read(), filled(0, kLarge));
}

// Messages to the other, to oneself, and blocks that go through slots.
TEST_F(CopyKernel, NeedsNoDriver) {
  // It is all done long before; without the kernel it never is.
  const Setting timeout("HORING_TIMEOUT_MS", 10 * horing::test::kShortDeadlineMs);
  for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  comms_ = makeCommunicators(2, Meeting::kInitAll);
  const GpuVector<float> own(cuda_, kGpu, std::vector<float>(kLarge, -7)),
      all(cuda_, kGpu, filled(1, kLarge));
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  std::atomic<bool> let_go{false};
  cuda_.holdCopies(&let_go);
  const int looks = cuda_.calls("cuEventQuery"), launches = cuda_.launches();
  for (int round = 0; round < 2; ++round) {
    EXPECT_HORING(send(stream.get()));
    EXPECT_HORING(receive(other.get()));
  }
  ASSERT_HORING(horingGroupStart());
  EXPECT_HORING(horingSend(large_.data(), kLarge, horingFloat, 0, comms_[0], stream.get()));
  EXPECT_HORING(horingRecv(own.data(), kLarge, horingFloat, 0, comms_[0], stream.get()));
  ASSERT_HORING(horingGroupEnd());
  const size_t counts[] = {kLarge / 2 - 3, kLarge / 2 + 3}, offsets[] = {0, counts[0]};
  for (const int rank : {0, 1})
    EXPECT_HORING(horingScatterV(rank == 0 ? large_.data() : nullptr, counts, offsets,
                                 all.data() + offsets[rank], counts[rank], horingFloat, 0, comms_[rank],
                                 rank == 0 ? stream.get() : other.get()));
  stream.set(let_go);
  stream.synchronize();
  other.synchronize();
  EXPECT_EQ(cuda_.calls("cuEventQuery"), looks);
  EXPECT_EQ(cuda_.launches() - launches, 7);
  for (const auto* const received : {&target_, &own, &all}) EXPECT_EQ(received->read(), filled(0, kLarge));
}

// Queued operations that have not begun are dropped: the memory may be gone when the stream continues.
TEST_F(CopyKernel, EndsWithAnAbort) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu), behind(cuda_, kGpu);
  EXPECT_HORING(send(stream.get()));
  EXPECT_HORING(send(behind.get()));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(stream.idle());
  end(0);
  stream.synchronize();
  behind.synchronize();
  (void)receive(other.get());  // which may have got the error
  other.synchronize();
  while (asyncError(1) == horingSuccess) std::this_thread::yield();
}

// A launch returned only after the kernel had ended, which waits for work after the launch.
TEST_F(CopyKernel, IsNotUsedWhereLaunchesBlock) {
  const Setting blocking("CUDA_LAUNCH_BLOCKING", "1");
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  const int launches = cuda_.launches();
  EXPECT_HORING(send(stream.get()));
  EXPECT_HORING(receive(other.get()));
  stream.synchronize();
  other.synchronize();
  EXPECT_EQ(cuda_.launches(), launches);
  EXPECT_EQ(target_.read(), filled(0, kLarge));
}

TEST_F(CopyKernel, EndsWithItsPeer) {
  const GpuStream stream(cuda_, kGpu);
  EXPECT_HORING(send(stream.get()));
  end(1);
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
}

// A stream that is held up comes to it later, when all that it needs must still be there. On a GPU that no other test uses, since kernels
// stay loaded then.
TEST_F(CopyKernel, HasItsMemoryWhenItComesLate) {
  constexpr int kOtherGpu = 3;
  const GpuVector<float> large(cuda_, kOtherGpu, filled(0, kLarge));
  const GpuStream stream(cuda_, kOtherGpu);
  std::atomic<bool> gate{false};
  stream.waitFor(gate);
  EXPECT_HORING(horingSend(large.data(), kLarge, horingFloat, 1, comms_[0], stream.get()));
  end(0);
  EXPECT_FALSE(stream.idle());
  gate = true;
  stream.synchronize();
}

TEST_F(CopyKernel, ThatCannotBeLaunchedFreesTheStream) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  cuda_.fail("cuLaunchKernel", 700);
  EXPECT_TRUE(refuses(send(stream.get()), horingUnhandledCudaError, "launching a kernel"));
  cuda_.fail(nullptr, 0);
  stream.synchronize();
  while (asyncError(1) == horingSuccess) std::this_thread::yield();
}

TEST_F(CopyKernel, ThatDoesNotBeginHasADeadline) {
  const Setting timeout("HORING_TIMEOUT_MS", horing::test::kShortDeadlineMs);
  for (const horingComm_t comm : comms_) EXPECT_HORING(horingCommDestroy(comm));
  comms_ = makeCommunicators(2, Meeting::kInitAll);
  static constexpr horing::fake::Kernels kIdle = {
      [](const char* name) { return horing::test::emulatedKernels().parameter_bytes(name); },
      [](const char*, const void*, const horing::fake::Grid&) {}};
  cuda_.setKernels(&kIdle);
  const GpuStream stream(cuda_, kGpu);
  EXPECT_HORING(send(stream.get()));
  stream.synchronize();
  while (asyncError(0) == horingSuccess) std::this_thread::yield();
  EXPECT_TRUE(refuses(send(stream.get()), horingTimeout, "HORING_TIMEOUT_MS"));
}

// After an abort the caller may free its memory when its stream continues.
TEST_F(GpuMessageTrouble, AbortLetsACopyEnd) {
  const GpuStream stream(cuda_, kGpu), other(cuda_, kGpu);
  const int copies = cuda_.calls("cuMemcpyAsync");
  cuda_.slowCopies(kForEverUs);
  EXPECT_HORING(receive(other.get()));
  EXPECT_HORING(send(stream.get()));
  while (cuda_.calls("cuMemcpyAsync") == copies) std::this_thread::yield();
  // No event announces its end, so the rank polls often; a rank that slept would poll ten or twenty times a second.
  const auto begin = std::chrono::steady_clock::now();
  for (const int looks = cuda_.calls("cuEventQuery"); cuda_.calls("cuEventQuery") < looks + 200;)
    std::this_thread::yield();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  std::thread copy_ends([&] {
    while (asyncError(1) == horingSuccess) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(stream.idle());
    cuda_.slowCopies(0);
  });
  end(0);
  copy_ends.join();
  stream.synchronize();
  other.synchronize();
}

}  // namespace
