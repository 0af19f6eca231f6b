// A CUDA driver that comes when communicators are there already, and memory that both the host and a GPU reach.
#include "fake_cuda/fake_cuda.h"
#include "ranks.h"

namespace {

class DeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_HORING(horingCommInitAll(&comm_, 1, nullptr));
    // Before any driver, so that each test, whichever runs first, sees one come later.
    ASSERT_HORING(horingAllReduce(host_, host_, 4, horingFloat, horingSum, comm_, nullptr));
  }
  void TearDown() override { EXPECT_HORING(horingCommDestroy(comm_)); }

  horingComm_t comm_ = nullptr;
  alignas(64) float host_[16] = {};
  alignas(64) float device_[16] = {};
};

TEST_F(DeviceMemory, IsToldFromTheHostsOnceADriverIsThere) {
  const horing::test::FakeCuda fake;
  ASSERT_TRUE(fake.loaded());
  fake.setDeviceMemory(device_, sizeof device_, 2);
  EXPECT_TRUE(refuses(horingAllReduce(device_, host_, 4, horingFloat, horingSum, comm_, nullptr),
                      horingInvalidUsage, "is on GPU 2 and recvbuff"));
  EXPECT_HORING(horingAllReduce(host_, host_, 4, horingFloat, horingSum, comm_, nullptr));
  device_[0] = 5;
  EXPECT_HORING(horingAllReduce(device_, device_ + 4, 4, horingFloat, horingSum, comm_, nullptr));
  EXPECT_EQ(device_[4], 5.0F);
}

TEST_F(DeviceMemory, ThatNoDriverFunctionCanUseIsAnErrorOfTheCall) {
  const horing::test::FakeCuda fake;
  fake.setDeviceMemory(device_, sizeof device_, 2);
  fake.fail("cuDevicePrimaryCtxRetain", 999);
  EXPECT_TRUE(refuses(horingAllReduce(device_, device_, 4, horingFloat, horingSum, comm_, nullptr),
                      horingUnhandledCudaError, "using GPU 2"));
  fake.fail(nullptr, 0);
  EXPECT_HORING(horingAllReduce(device_, device_, 4, horingFloat, horingSum, comm_, nullptr));
}

TEST_F(DeviceMemory, IsNotWhatHostAndDeviceShare) {
  const horing::test::FakeCuda fake;
  fake.setManagedMemory(device_, sizeof device_, 0);
  EXPECT_HORING(horingAllReduce(device_, device_, 4, horingFloat, horingSum, comm_, nullptr));
}

}  // namespace
