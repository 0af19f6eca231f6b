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

TEST_F(CudaIpc, SharesWholeAllocationsAlone) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  const auto* const begin = reinterpret_cast<const std::byte*>(data.data());
  EXPECT_TRUE(shareMemory(*device_, begin).ok());
  EXPECT_FALSE(shareMemory(*device_, begin + 4096).ok());
  std::byte on_host{};
  EXPECT_FALSE(shareMemory(*device_, &on_host).ok());
}

TEST_F(CudaIpc, OpensNothingByWhatIsNoHandleOfAnotherProcess) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  const int live = cuda_.live();
  auto own = shareMemory(*device_, reinterpret_cast<const std::byte*>(data.data()));
  ASSERT_TRUE(own.ok());
  CudaIpcHandle noise{};
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::byte>(i * 37);
  for (const CudaIpcHandle& handle : {CudaIpcHandle{}, noise, own.value()}) {
    const auto opened = OpenedMemory::open(device_, handle, 4096);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), Code::kUnhandledCudaError);
  }
  EXPECT_EQ(cuda_.live(), live);
}

TEST_F(CudaIpc, IsNoneWhereTheDriverFails) {
  const GpuVector<float> data(cuda_, 0, std::vector<float>(8192, 1));
  for (const char* function : {"cuIpcGetMemHandle", "cuMemGetAddressRange"}) {
    cuda_.fail(function, 801);
    EXPECT_FALSE(shareMemory(*device_, reinterpret_cast<const std::byte*>(data.data())).ok()) << function;
  }
  cuda_.fail(nullptr, 0);
}

}  // namespace
}  // namespace horing
