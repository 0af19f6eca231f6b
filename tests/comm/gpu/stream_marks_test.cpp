// Marks in streams of a fake driver without a GPU.
#include "comm/gpu/stream_marks.h"

#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace horing
