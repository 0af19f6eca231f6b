// The settings of horingConfig_t and horingOptions_t that concern kernels. Emulated.
#include <algorithm>
#include <vector>

#include "gpu_ranks.h"

namespace {

using horing::test::FakeCuda;
using horing::test::GpuVector;

TEST(GpuSettings, OfAChildSayHowManyBlocksKernelsHave) {
  if (FakeCuda::isReal()) GTEST_SKIP() << "a driver does not tell grids";
  const FakeCuda cuda;
  ASSERT_TRUE(cuda.loaded());
  cuda.setKernels(&horing::test::emulatedKernels());
  const std::vector<horingComm_t> comms = makeCommunicators(2, Meeting::kInitAll);
  constexpr size_t kLarge = 2'000'000;
  const auto addWith = [&](const horingConfig_t& given, uint64_t(&bytes)[2]) {
    onEveryRank(2, [&](int rank) {
      horingConfig_t config = given;
      horingComm_t child = nullptr;
      ASSERT_HORING(horingCommSplit(comms[static_cast<size_t>(rank)], 0, rank, &child, &config));
      const GpuVector<float> data(cuda, rank, std::vector<float>(kLarge, 1));
      EXPECT_HORING(
          horingAllReduce(data.data(), data.data(), kLarge, horingFloat, horingSum, child, nullptr));
      EXPECT_EQ(data.read(), std::vector<float>(kLarge, 2));
      EXPECT_HORING(horingCommMemoryBytes(child, &bytes[rank]));
      EXPECT_HORING(horingCommDestroy(child));
    });
  };
  constexpr uint64_t kOfKernels = 32 << 20;
  uint64_t bytes[2] = {};
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.maxCTAs = 3;
  addWith(config, bytes);
  EXPECT_EQ(cuda.columns() * cuda.rows(), 3);
  EXPECT_GE(std::min(bytes[0], bytes[1]), kOfKernels);
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  cuda.setKernels(nullptr);
}

// In what two ranks say, of as many operations.
void expectOneWarning(const FakeCuda& cuda, const std::function<std::vector<horingComm_t>()>& meet,
                      const std::string& why) {
  cuda.setKernels(&horing::test::emulatedKernels());
  testing::internal::CaptureStderr();
  const std::vector<horingComm_t> comms = meet();
  onEveryRank(2, [&](int rank) {
    const GpuVector<float> data(cuda, rank, std::vector<float>(8, 1));
    for (int i = 0; i < 2; ++i)
      EXPECT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum,
                                    comms[static_cast<size_t>(rank)], nullptr));
    EXPECT_EQ(data.read(), std::vector<float>(8, 4));
  });
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string warning = "WARN gpu: operations on GPUs are slow";
  const size_t at = log.find(warning);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(warning, at + 1), std::string::npos) << log;
  EXPECT_NE(log.find(why, at), std::string::npos) << log;
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
  cuda.setKernels(nullptr);
}

TEST(GpuSettings, ThatLeaveAllToHostsWarnOnceWhereThreadsMetById) {
  const FakeCuda cuda;
  expectOneWarning(
      cuda, [] { return makeCommunicators(2, Meeting::kInitRank); }, "had no GPU current then");
}

TEST(GpuSettings, ThatLeaveAllToHostsWarnOnceWhereGpusDoNotReachEachOther) {
  const FakeCuda cuda;
  cuda.fail("cuDeviceCanAccessPeer", 1);
  expectOneWarning(
      cuda, [] { return makeCommunicators(2, Meeting::kInitAll); },
      "kernels serve none of the ranks of this process");
  cuda.fail(nullptr, 0);
}

// Threads that met by an ID have none: they are created only for callers that ask for them.
TEST(GpuSettings, OfOptionsSayWhetherKernelsAreWanted) {
  const FakeCuda cuda;
  cuda.setKernels(&horing::test::emulatedKernels());
  for (const bool wanted : {true, false}) {
    horingUniqueId id;
    ASSERT_HORING(horingGetUniqueId(&id));
    testing::internal::CaptureStderr();
    onEveryRank(2, [&](int rank) {
      horingOptions_t options = HORING_OPTIONS_INITIALIZER;
      options.gpuKernels = wanted ? 1 : 0;
      horingComm_t comm = nullptr;
      ASSERT_HORING(horingCommInitRankOptions(&comm, 2, id, rank, nullptr, &options));
      const GpuVector<float> data(cuda, rank, std::vector<float>(8, 1));
      EXPECT_HORING(horingAllReduce(data.data(), data.data(), 8, horingFloat, horingSum, comm, nullptr));
      EXPECT_EQ(data.read(), std::vector<float>(8, 2));
      EXPECT_HORING(horingCommDestroy(comm));
    });
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("operations on GPUs are slow") != std::string::npos, wanted) << log;
  }
  cuda.setKernels(nullptr);
}

}  // namespace
