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

// One of two ranks of a node. A rank that has not reported yet may have opened the other's memory.
TEST(GpuNeighborsMemory, StaysWhileAnotherMayHaveItOpen) {
  if (test::FakeCuda::isReal()) GTEST_SKIP() << "made for the fake driver";
  const test::FakeCuda cuda;
  const std::unique_ptr<CudaDriver> driver = CudaDriver::ofProcess();
  const std::shared_ptr<const CudaDevice> device = CudaDevice::open(driver->api().value(), 0).take();
  const Log log(LogLevel::kNone);
  for (const bool has_heard : {false, true}) {
    GpuMailboxes mailboxes({"a node", "a node"});
    mailboxes.setShape({5, 4096}, 2, 0);
    const auto memory = cuda::makeDeviceMemory(device, mailboxes.bytes()).take();
    GpuNeighbors neighbors(0, std::move(mailboxes));
    ASSERT_TRUE(neighbors.offer(device, *memory, log));
    if (has_heard) neighbors.listen({{{std::byte{0}}, {std::byte{0}}}, 1}, log);
    EXPECT_EQ(neighbors.leave(), has_heard);
  }
}

}  // namespace
}  // namespace horing
