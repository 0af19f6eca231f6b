// Marks in streams of a fake driver without a GPU.
#include "comm/gpu/stream_marks.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"
#include "cuda/driver.h"
#include "fake_cuda/fake_gpu.h"

namespace horing {
namespace {

class StreamMarksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
    driver_ = CudaDriver::ofProcess();
    ASSERT_TRUE(driver_ && driver_->api().ok());
    gpu_ = CudaDevice::open(driver_->api().value(), 0).take();
  }
  test::FakeCuda cuda_;
  std::unique_ptr<CudaDriver> driver_;
  std::shared_ptr<const CudaDevice> gpu_;
};

// The GPU writes into the memory of a mark when its stream comes to it, whenever that is.
TEST_F(StreamMarksTest, AreNotReusedBeforeTheirStreamIsPastThem) {
  const test::GpuStream late(cuda_, 0), other(cuda_, 0);
  std::atomic<bool> gate{false};
  const CudaDevice::Current current(*gpu_);
  StreamMarks marks(gpu_);
  late.waitFor(gate);
  const StreamMark first = marks.take().take();
  ASSERT_TRUE(marks.tell(first, late.get()).ok());
  ASSERT_TRUE(marks.awaitEnd(first, late.get()).ok());
  marks.end(first);
  // More than a page has.
  std::vector<StreamMark> later;
  for (int i = 0; i < 100; ++i) {
    later.push_back(marks.take().take());
    ASSERT_TRUE(marks.tell(later.back(), other.get()).ok());
  }
  other.synchronize();
  gate = true;
  late.synchronize();
  for (const StreamMark& each : later)
    EXPECT_TRUE(marks.hasArrived(each)) << "a stream overwrote another's mark";
  for (const StreamMark& each : later) marks.end(each);
  EXPECT_TRUE(marks.settle());
  const uint64_t bytes = marks.memoryBytes();
  for (int i = 0; i < 1000; ++i) {
    const StreamMark mark = marks.take().take();
    ASSERT_TRUE(marks.tell(mark, other.get()).ok());
    other.synchronize();
    marks.end(mark);
  }
  EXPECT_EQ(marks.memoryBytes(), bytes) << "marks are reused";
  EXPECT_TRUE(marks.settle());
}

// Neither one that its stream has not come to, nor one for whose end a stream may wait.
TEST_F(StreamMarksTest, TellWhetherStreamsArePastAllOfThem) {
  const test::GpuStream late(cuda_, 0);
  std::atomic<bool> gate{false};
  const CudaDevice::Current current(*gpu_);
  StreamMarks marks(gpu_);
  const SteadyClock clock;
  const auto are_past = [&](int64_t wait_ms) { return marks.awaitPast(Deadline::after(clock, wait_ms)); };
  EXPECT_TRUE(are_past(0));
  late.waitFor(gate);
  const StreamMark mark = marks.take().take();
  EXPECT_FALSE(are_past(0));
  ASSERT_TRUE(marks.tell(mark, late.get()).ok());
  ASSERT_TRUE(marks.awaitEnd(mark, late.get()).ok());
  EXPECT_FALSE(are_past(0));
  marks.end(mark);
  EXPECT_FALSE(are_past(20)) << "the stream has not come there";
  gate = true;
  EXPECT_TRUE(are_past(10'000));
  marks.distrust();
  EXPECT_FALSE(are_past(10'000));
  late.synchronize();
  marks.abandon();
}

}  // namespace
}  // namespace horing
