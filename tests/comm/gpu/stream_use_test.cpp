// Uses of default streams of a fake driver without a GPU.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "comm/gpu/default_streams.h"
#include "cuda/driver.h"
#include "fake_cuda/fake_gpu.h"

namespace horing {
namespace {

class StreamUseTest : public ::testing::Test {
 protected:
  using Use = std::shared_ptr<const StreamUse>;
  void SetUp() override {
    if (test::FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
    driver_ = CudaDriver::ofProcess();
    ASSERT_TRUE(driver_ && driver_->api().ok());
    gpu_ = CudaDevice::open(driver_->api().value(), 0).take();
  }
  Use enter(int rank, CudaStream stream, bool waits) const {
    Result<Use> use = StreamUse::enter({JobId{}, rank}, *gpu_, stream, waits);
    EXPECT_TRUE(use.ok()) << use.status().message();
    return use.ok() ? use.take() : nullptr;
  }
  test::FakeCuda cuda_;
  std::unique_ptr<CudaDriver> driver_;
  std::shared_ptr<const CudaDevice> gpu_;
};

TEST_F(StreamUseTest, EndsWithItsOperation) {
  const CudaDevice::Current current(*gpu_);
  {
    const Use wait = enter(0, nullptr, true);
    EXPECT_EQ(StreamUse::count(), 1U);
    EXPECT_FALSE(StreamUse::enter({JobId{}, 1}, *gpu_, kStreamPerThread, false).ok());
    EXPECT_EQ(StreamUse::count(), 1U) << "what is refused counts for nothing";
  }
  EXPECT_EQ(StreamUse::count(), 0U);
  EXPECT_NE(enter(1, kStreamPerThread, false), nullptr);
}

TEST_F(StreamUseTest, StaysForNoThreadThatHasEnded) {
  for (int i = 0; i < 100; ++i) std::thread([&] { enter(i % 2, kStreamPerThread, i % 3 == 0); }).join();
  EXPECT_EQ(StreamUse::count(), 0U);
}

TEST_F(StreamUseTest, IsNoneOfAStreamThatHoldsNoOtherBack) {
  const test::GpuStream alone(cuda_, 0), blocking(cuda_, 0, test::GpuStream::kBlocking);
  EXPECT_EQ(enter(0, alone.get(), true), nullptr);
  EXPECT_NE(enter(0, blocking.get(), true), nullptr);
}

}  // namespace
}  // namespace horing
