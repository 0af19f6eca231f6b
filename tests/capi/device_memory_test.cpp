// A CUDA driver that is loaded after communicators were made, and memory that both the host and a GPU can access.
#include <cstdio>
#include <cstdlib>
#include <fstream>

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

// The ring follows what joins the GPUs: 0 and 2, 1 and 3.
TEST(DeviceList, LaysTheRing) {
  const horing::test::FakeCuda fake;
  ASSERT_TRUE(fake.loaded());
  if (horing::test::FakeCuda::isReal()) GTEST_SKIP() << "speaks of GPUs that are not here";
  const std::string path = testing::TempDir() + "horing_device_list.xml";
  std::ofstream file(path);
  file << "<system><cpu numaid=\"0\" affinity=\"1\">";
  for (int gpu = 0; gpu < 4; ++gpu) {
    char bus[2][16];
    std::snprintf(bus[0], sizeof bus[0], "0000:%02x:00.0", 0x3b + gpu);
    std::snprintf(bus[1], sizeof bus[1], "0000:%02x:00.0", 0x3b + (gpu ^ 2));
    file << "<pci busid=\"" << bus[0] << "\" class=\"0x030200\"><gpu dev=\"" << gpu
         << "\" sm=\"70\"><nvlink target=\"" << bus[1] << "\" count=\"4\" tclass=\"0x030200\"/></gpu></pci>";
  }
  file << "</cpu></system>";
  file.close();
  ::setenv("HORING_TOPO_FILE", path.c_str(), 1);
  ::setenv("HORING_DEBUG", "info", 1);
  testing::internal::CaptureStderr();
  const int devices[] = {0, 1, 2, 3};
  horingComm_t comms[4] = {};
  const horingResult_t made = horingCommInitAll(comms, 4, devices);
  const std::string said = testing::internal::GetCapturedStderr();
  ::unsetenv("HORING_TOPO_FILE");
  ::unsetenv("HORING_DEBUG");
  std::remove(path.c_str());
  ASSERT_HORING(made);
  EXPECT_NE(said.find("ring: 0 > 1 > 3 > 2 > back"), std::string::npos) << said;
  EXPECT_NE(said.find("on gpu 0000:3b:00.0"), std::string::npos) << said;
  std::vector<std::thread> threads;
  for (horingComm_t comm : comms) threads.emplace_back([comm] { EXPECT_HORING(horingCommDestroy(comm)); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DeviceMemory, IsNotWhatHostAndDeviceShare) {
  const horing::test::FakeCuda fake;
  fake.setManagedMemory(device_, sizeof device_, 0);
  EXPECT_HORING(horingAllReduce(device_, device_, 4, horingFloat, horingSum, comm_, nullptr));
}

}  // namespace
