// CUDA IPC by itself; tests/capi/gpu_nodes_test.cpp tests it between processes.
#include "cuda/ipc.h"

#include <gtest/gtest.h>

#include "cuda/driver.h"
#include "fake_cuda/fake_gpu.h"

namespace horing {
namespace {

using test::FakeCuda;
using test::GpuVector;

class CudaIpc : public testing::Test {
 protected:
  void SetUp() override { device_ = CudaDevice::open(driver_->api().value(), 0).take(); }
  const FakeCuda cuda_;
  const std::unique_ptr<CudaDriver> driver_ = CudaDriver::ofProcess();
  std::shared_ptr<const CudaDevice> device_;
};

const std::byte* bytesOf(const GpuVector<float>& data) {
  return reinterpret_cast<const std::byte*>(data.data());
}

TEST_F(CudaIpc, SharesWholeAllocationsAlone) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  EXPECT_TRUE(SharedMemory::make(device_, bytesOf(data)).ok());
  EXPECT_FALSE(SharedMemory::make(device_, bytesOf(data) + 4096).ok());
  std::byte on_host{};
  EXPECT_FALSE(SharedMemory::make(device_, &on_host).ok());
}

TEST_F(CudaIpc, OpensNothingByWhatIsNoHandle) {
  CudaIpcHandle noise{};
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::byte>(i * 37);
  const int live = cuda_.live();
  for (const CudaIpcHandle& handle : {CudaIpcHandle{}, noise}) {
    const auto opened = OpenedMemory::open(device_, handle, 4096);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), Code::kUnhandledCudaError);
  }
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(CudaIpc, OpensMemoryOfThisProcessAtItsOwnAddressWhileItIsShared) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  const auto other = CudaDevice::open(driver_->api().value(), 1).take();
  auto shared = SharedMemory::make(device_, bytesOf(data));
  ASSERT_TRUE(shared.ok());
  const CudaIpcHandle handle = shared.value()->handle();
  const auto opened = OpenedMemory::open(other, handle, 4096);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened.value()->begin(), bytesOf(data));
  EXPECT_FALSE(OpenedMemory::open(other, handle, size_t{1} << 30).ok());
  cuda_.fail("cuDeviceCanAccessPeer", 1);
  EXPECT_FALSE(OpenedMemory::open(other, handle, 4096).ok());
  cuda_.fail(nullptr, 0);
  shared.take().reset();
  EXPECT_FALSE(OpenedMemory::open(other, handle, 4096).ok());
}

TEST_F(CudaIpc, SharesAnAllocationUntilThoseWhoShareItHaveAllEnded) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  const auto share = [&] { return SharedMemory::make(device_, bytesOf(data)).take(); };
  for (const bool first_ends_first : {true, false}) {
    auto first = share(), second = share();
    const CudaIpcHandle handle = first->handle();
    ASSERT_EQ(second->handle(), handle);
    (first_ends_first ? first : second).reset();
    EXPECT_TRUE(OpenedMemory::open(device_, handle, 4096).ok()) << first_ends_first;
    (first_ends_first ? second : first).reset();
    EXPECT_FALSE(OpenedMemory::open(device_, handle, 4096).ok()) << first_ends_first;
  }
}

TEST_F(CudaIpc, KeepsMemoryForAsLongAsThisProcessHasItOpen) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  auto shared = SharedMemory::make(device_, bytesOf(data)).take();
  auto opened = OpenedMemory::open(device_, shared->handle(), 4096).take();
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> is_kept = owner;
  shared->keep(std::move(owner));
  shared.reset();
  EXPECT_FALSE(is_kept.expired());
  opened.reset();
  EXPECT_TRUE(is_kept.expired());
}

TEST_F(CudaIpc, IsNoneWhereTheDriverFails) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  for (const char* function : {"cuIpcGetMemHandle", "cuMemGetAddressRange"}) {
    cuda_.fail(function, 801);
    EXPECT_FALSE(SharedMemory::make(device_, bytesOf(data)).ok()) << function;
  }
  cuda_.fail(nullptr, 0);
}

}  // namespace
}  // namespace horing
