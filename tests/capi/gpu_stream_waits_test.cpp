// Streams of CUDA that wait for marks on streams of the library, with the driver of gpu_buffers_test.cpp.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "fake_cuda/fake_gpu.h"
#include "gpu_ranks.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::GpuStream;
using horing::test::GpuVector;
using horing::test::PinnedVector;

// A stream of the library.
class OwnStream {
 public:
  OwnStream() { EXPECT_HORING(horingStreamCreate(&stream_)); }
  ~OwnStream() { (void)horingStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  horingStream_t get() const { return stream_; }
  uint64_t mark() const {
    uint64_t mark = 0;
    EXPECT_HORING(horingStreamMark(stream_, &mark));
    return mark;
  }

 private:
  horingStream_t stream_ = nullptr;
};

constexpr size_t kCount = 1000;

// Two ranks, each on its GPU.
class GpuStreamWaits : public GpuKernelTrouble {
 protected:
  void SetUp() override {
    GpuKernelTrouble::SetUp();
    comms_ = makeCommunicators(2, Meeting::kInitRank);
    for (const horingComm_t each : comms_) ASSERT_HORING(horingCommSetTimeout(each, 20'000));
  }
  // Receives from rank 1 on rank 0. Returns the mark behind that.
  uint64_t receive(const PinnedVector<int32_t>& into, uint64_t tag, const OwnStream& stream) {
    EXPECT_HORING(horingRecvTagged(into.data(), kCount, horingInt32, 1, tag, nullptr, comm(0), stream.get()));
    return stream.mark();
  }
  horingResult_t send(int32_t value, uint64_t tag) {
    const std::vector<int32_t> data(kCount, value);
    return horingSendTagged(data.data(), kCount, horingInt32, 0, tag, comm(1), nullptr);
  }
  horingResult_t wait(const OwnStream& stream, uint64_t mark, const GpuStream& waiting) {
    return horingStreamWaitOnGpu(stream.get(), mark, comm(0), waiting.get());
  }

  const std::vector<int32_t> nothing_ = std::vector<int32_t>(kCount, -1);
};

// What the stream copies behind the wait is what has come. The copy of the second is called first.
TEST_F(GpuStreamWaits, GoOnWhenTheirOwnMessageIsThere) {
  const GpuStream first(cuda_, 0), second(cuda_, 0), both(cuda_, 0);
  const PinnedVector<int32_t> of_first(cuda_, 0, nothing_), of_second(cuda_, 0, nothing_),
      of_other(cuda_, 0, nothing_);
  const GpuVector<int32_t> in_first(cuda_, 0, nothing_), in_second(cuda_, 0, nothing_);
  const OwnStream receiving, other;
  const uint64_t first_mark = receive(of_first, 1, receiving), second_mark = receive(of_second, 2, receiving);
  EXPECT_HORING(wait(receiving, second_mark, second));
  EXPECT_HORING(wait(receiving, first_mark, first));
  EXPECT_HORING(wait(receiving, HORING_STREAM_ALL, both));
  in_first.writeOn(first, of_first);
  in_second.writeOn(second, of_second);
  const uint64_t other_mark = receive(of_other, 3, other);
  EXPECT_HORING(wait(other, other_mark, both));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(first.idle());
  EXPECT_HORING(send(5, 1));
  first.synchronize();
  EXPECT_EQ(in_first.read(), std::vector<int32_t>(kCount, 5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(second.idle());
  EXPECT_HORING(send(6, 2));
  second.synchronize();
  EXPECT_EQ(in_second.read(), std::vector<int32_t>(kCount, 6));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(both.idle());
  EXPECT_HORING(send(7, 3));
  both.synchronize();
  EXPECT_EQ(of_other.values(), std::vector<int32_t>(kCount, 7));
}

TEST_F(GpuStreamWaits, AreNoneBehindWhatIsComplete) {
  const GpuStream stream(cuda_, 0);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  EXPECT_HORING(wait(receiving, HORING_STREAM_ALL, stream)) << "nothing was issued";
  const uint64_t mark = receive(received, 1, receiving);
  EXPECT_HORING(send(5, 1));
  EXPECT_HORING(horingStreamWait(receiving.get(), mark, 10'000));
  (void)receive(received, 2, receiving);
  EXPECT_HORING(wait(receiving, mark, stream));
  stream.synchronize();
  EXPECT_HORING(send(6, 2));
}

TEST_F(GpuStreamWaits, GoOnBehindAnEmptyMessage) {
  const GpuStream stream(cuda_, 0);
  const OwnStream receiving;
  EXPECT_HORING(wait(receiving, 0, stream)) << "the communicator works on a GPU from here on";
  const auto receive_nothing = [&](horingStream_t on) {
    return horingRecvTagged(nullptr, 0, horingInt32, 1, 4, nullptr, comm(0), on);
  };
  EXPECT_HORING(receive_nothing(receiving.get()));
  EXPECT_HORING(wait(receiving, HORING_STREAM_ALL, stream));
  for (int i = 0; i < 2; ++i)
    EXPECT_HORING(horingSendTagged(nullptr, 0, horingInt32, 0, 4, comm(1), nullptr));
  EXPECT_HORING(receive_nothing(nullptr));
  stream.synchronize();
}

// Collectives on the GPU go on beside them.
TEST_F(GpuStreamWaits, HoldNoOtherStreamBack) {
  const auto add_on = [&](int rank, const GpuStream& stream) {
    EXPECT_HORING(add(rank, on(rank).data(), stream.get()));
    stream.synchronize();
  };
  const GpuStream waiting(cuda_, 0), other(cuda_, 0), of_peer(cuda_, 1);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  onEveryRank(
      2, [&](int rank) { add_on(rank, rank == 0 ? other : of_peer); });  // the first one may wait on the host
  EXPECT_HORING(wait(receiving, receive(received, 1, receiving), waiting));
  onEveryRank(2, [&](int rank) { add_on(rank, rank == 0 ? other : of_peer); });
  EXPECT_FALSE(waiting.idle());
  EXPECT_HORING(send(5, 1));
  waiting.synchronize();
}

TEST_F(GpuStreamWaits, EndWithAnError) {
  const GpuStream of_deadline(cuda_, 0);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  ASSERT_HORING(horingCommSetTimeout(comm(0), 300));
  const uint64_t mark = receive(received, 1, receiving);
  EXPECT_HORING(wait(receiving, mark, of_deadline));
  of_deadline.synchronize();
  EXPECT_EQ(horingStreamWait(receiving.get(), mark, 0), horingTimeout);
  EXPECT_HORING(wait(receiving, mark, of_deadline)) << "it is complete, with an error";
  of_deadline.synchronize();
}

TEST_F(GpuStreamWaits, EndWithTheLossOfTheSender) {
  const GpuStream stream(cuda_, 0);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  EXPECT_HORING(wait(receiving, receive(received, 1, receiving), stream));
  EXPECT_HORING(horingCommAbort(std::exchange(comms_[1], nullptr)));
  stream.synchronize();
  EXPECT_NE(horingStreamSynchronize(receiving.get()), horingSuccess);
}

TEST_F(GpuStreamWaits, EndWithAnAbort) {
  const GpuStream stream(cuda_, 0);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  EXPECT_HORING(wait(receiving, receive(received, 1, receiving), stream));
  EXPECT_FALSE(stream.idle());
  std::thread([&] { EXPECT_HORING(horingCommAbort(std::exchange(comms_[0], nullptr))); }).join();
  stream.synchronize();
  (void)horingStreamSynchronize(receiving.get());
}

// The operation is of another communicator, and ends later.
TEST_F(GpuStreamWaits, EndWithTheirCommunicator) {
  const GpuStream stream(cuda_, 0);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  const uint64_t mark = receive(received, 1, receiving);
  std::vector<horingComm_t> brief = makeCommunicators(1, Meeting::kInitRank);
  EXPECT_HORING(horingStreamWaitOnGpu(receiving.get(), mark, brief[0], stream.get()));
  EXPECT_FALSE(stream.idle());
  EXPECT_HORING(horingCommDestroy(brief[0]));
  stream.synchronize();
  EXPECT_EQ(horingStreamWait(receiving.get(), mark, 0), horingInProgress);
  EXPECT_HORING(send(5, 1));
  EXPECT_HORING(horingStreamSynchronize(receiving.get()));
  EXPECT_EQ(received.values(), std::vector<int32_t>(kCount, 5));
}

TEST_F(GpuStreamWaits, AreRefusedByName) {
  const GpuStream stream(cuda_, 0), elsewhere(cuda_, 1);
  const PinnedVector<int32_t> received(cuda_, 0, nothing_);
  const OwnStream receiving;
  const uint64_t mark = receive(received, 1, receiving);
  const auto refuses_on = [&](void* waiting, const char* why) {
    return refuses(horingStreamWaitOnGpu(receiving.get(), mark, comm(0), waiting), horingInvalidUsage, why);
  };
  EXPECT_TRUE(refuses_on(nullptr, "expected a cudaStream_t"));
  EXPECT_TRUE(refuses_on(receiving.get(), "expected a cudaStream_t"));
  EXPECT_TRUE(refuses(horingStreamWaitOnGpu(nullptr, mark, comm(0), stream.get()), horingInvalidArgument,
                      "stream is NULL"));
  EXPECT_TRUE(refuses(horingStreamWaitOnGpu(stream.get(), mark, comm(0), stream.get()), horingInvalidUsage,
                      "expected NULL"));
  EXPECT_TRUE(refuses(horingStreamWaitOnGpu(receiving.get(), mark, nullptr, stream.get()),
                      horingInvalidArgument, "comm is NULL"));
  EXPECT_HORING(wait(receiving, mark, stream));
  EXPECT_TRUE(refuses_on(elsewhere.get(), "on GPU 1"));
  const GpuStream recording(cuda_, 0);
  const CurrentGpu current(cuda_, 0);
  const RecordedGraph graph(cuda_, recording,
                            [&] { EXPECT_TRUE(refuses_on(recording.get(), "records a graph")); });
  EXPECT_HORING(send(5, 1));
  stream.synchronize();
}

}  // namespace
