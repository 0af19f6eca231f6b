// Memory for queues and plans of kernels, of a GPU of the fake driver and pinned.
#include <gtest/gtest.h>

#include "comm/gpu/neighbors.h"
#include "cuda/driver.h"
#include "engine/cuda/device_memory.h"
#include "engine/cuda/pinned_memory.h"
#include "fake_cuda/fake_cuda.h"

namespace horing {
namespace {

constexpr size_t kBytes = 16384;

class GpuMemory : public testing::TestWithParam<decltype(&cuda::makeDeviceMemory)> {
 protected:
  const test::FakeCuda cuda_;
  const std::unique_ptr<CudaDriver> driver_ = CudaDriver::ofProcess();
};

TEST_P(GpuMemory, IsGivenAgainWhenItWasTakenBackAndZero) {
  const auto memory = GetParam()(CudaDevice::open(driver_->api().value(), 0).take(), kBytes).take();
  const std::vector<std::byte> ones(kBytes, std::byte{1});
  const std::byte* const kept = memory->allocate(1000).value();
  const size_t used = memory->used();
  std::byte* const first = memory->allocate(kBytes - used).value();
  ASSERT_TRUE(memory->write(first, ones.data(), kBytes - used).ok());
  EXPECT_FALSE(memory->allocate(1).ok());
  ASSERT_TRUE(memory->rewind(used).ok());
  EXPECT_EQ(memory->used(), used);
  EXPECT_EQ(memory->allocate(kBytes - used).value(), first);
  std::vector<std::byte> all = ones;
  ASSERT_TRUE(memory->read(all.data(), kept, kBytes).ok());
  EXPECT_EQ(all, std::vector<std::byte>(kBytes));
}

INSTANTIATE_TEST_SUITE_P(Memories, GpuMemory,
                         testing::Values(&cuda::makeDeviceMemory, &cuda::makePinnedMemory));

class GpuNeighborsMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (test::FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
    device_ = CudaDevice::open(driver_->api().value(), 0).take();
  }
  // One of two ranks of a node.
  GpuNeighbors neighbors(std::set<int> here) {
    GpuMailboxes mailboxes({"a node", "a node"});
    mailboxes.setShape({5, 4096}, 2, 0);
    memory_ = cuda::makeDeviceMemory(device_, mailboxes.bytes()).take();
    return GpuNeighbors(0, std::move(mailboxes), std::move(here));
  }
  const test::FakeCuda cuda_;
  const std::unique_ptr<CudaDriver> driver_ = CudaDriver::ofProcess();
  const Log log_{LogLevel::kNone};
  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<cuda::Memory> memory_;
};

// A rank that has not reported yet may have opened the other's memory.
TEST_F(GpuNeighborsMemory, StaysWhileAnotherProcessMayHaveItOpen) {
  for (const bool has_heard : {false, true}) {
    GpuNeighbors neighbors = this->neighbors({0});
    ASSERT_TRUE(neighbors.offer(device_, *memory_, log_));
    if (has_heard) neighbors.listen({{{std::byte{0}}, {std::byte{0}}}, 1}, log_);
    EXPECT_EQ(neighbors.leave(std::move(memory_)) == nullptr, has_heard);
  }
}

TEST_F(GpuNeighborsMemory, StaysUntilTheLastOfThisProcessHasClosedIt) {
  GpuNeighbors neighbors = this->neighbors({0, 1});
  const std::weak_ptr<cuda::Memory> is_kept = memory_;
  const auto handle = neighbors.offer(device_, *memory_, log_);
  ASSERT_TRUE(handle);
  auto opened = OpenedMemory::open(device_, *handle, 1).take();
  EXPECT_EQ(neighbors.leave(std::move(memory_)), nullptr);
  EXPECT_FALSE(is_kept.expired());
  opened.reset();
  EXPECT_TRUE(is_kept.expired());
}

}  // namespace
}  // namespace horing
