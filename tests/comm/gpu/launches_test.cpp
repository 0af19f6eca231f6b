// Why a launch that ranks of one process make together is not on its way, on GPUs of the fake driver whose kernels do nothing.
#include <gtest/gtest.h>

#include "comm/gpu/team.h"
#include "cuda/driver.h"
#include "fake_cuda/fake_cuda.h"

namespace horing {
namespace {

constexpr fake::Kernels kIdle = {[](const char*) { return sizeof(cuda::LaneCalls); },
                                 [](const char*, const void*, const fake::Grid&) {}};

class LateLaunch : public testing::Test {
 protected:
  void SetUp() override { cuda_.setKernels(&kIdle); }
  void TearDown() override { cuda_.setKernels(nullptr); }
  // Of rank 0 when its time is up.
  static GpuWaitLimit none() {
    static const ManualClock clock;
    return {Deadline::after(clock, 0), [] { return Status(); }};
  }
  // Rank 0 on GPU 0, and rank 1 on that one.
  void meet(int gpu_of_rank_1) {
    for (const int rank : {0, 1})
      team_.arrive(rank, CudaDevice::open(driver_->api().value(), rank * gpu_of_rank_1).take());
    const Config config = Config::fromEnvironment().take();
    const Result<bool> serves = team_.serves({0, config, GroupMap::blocks(1, 2), Log()}, none());
    ASSERT_TRUE(serves.ok() && serves.value());
  }
  GpuLaunch copy(int rank) {
    GpuLaunch launch = kernel(rank);
    launch.is_copied = true;
    return launch;
  }
  GpuLaunch kernel(int rank) {
    GpuLaunch launch;
    launch.rank = rank;
    launch.stream = team_.launches().ownStream(rank).value();
    launch.call.plan.parts = 1;
    return launch;
  }
  void make(const GpuLaunch& launch) {
    ASSERT_TRUE(team_.launches().enter(launch).ok());
    ASSERT_TRUE(team_.launches().start(launch.rank).ok());
  }
  void expectLate(const char* why) {
    const Status late = team_.launches().await(0, none());
    EXPECT_EQ(late.code(), Code::kTimeout);
    EXPECT_NE(late.message().find(why), std::string::npos) << late.message();
  }

  const test::FakeCuda cuda_;
  const std::unique_ptr<CudaDriver> driver_ = CudaDriver::ofProcess();
  GpuTeam team_{2};
};

TEST_F(LateLaunch, NamesWhoDidNotCall) {
  meet(1);
  make(copy(0));
  expectLate("rank(s) 1 did not make this call");
}

TEST_F(LateLaunch, NamesWhoDidNotEndItsGroup) {
  meet(1);
  make(copy(0));
  ASSERT_TRUE(team_.launches().enter(copy(1)).ok());
  expectLate("rank(s) 1 did not make this call");
}

TEST_F(LateLaunch, NamesWhoSharesTheGpuAndDidNotEndItsGroup) {
  meet(0);
  make(kernel(0));
  ASSERT_TRUE(team_.launches().enter(kernel(1)).ok());
  expectLate("rank(s) 1, which share its GPU, did not make this call");
}

// It has made as many calls as the other.
TEST_F(LateLaunch, NamesWhoLaunchedKernelsInstead) {
  meet(1);
  make(copy(0));
  GpuLaunch recorded = kernel(1);
  recorded.graph = CudaDevice::kUnknownGraph;
  make(recorded);
  expectLate("rank(s) 1 launched kernels where this rank copies");
}

TEST_F(LateLaunch, IsNoneThatIsOnItsWay) {
  meet(0);
  make(kernel(0));
  make(kernel(1));
  EXPECT_TRUE(team_.launches().await(0, none()).ok());
}

}  // namespace
}  // namespace horing
