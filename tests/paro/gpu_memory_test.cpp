// When clients in memory of GPUs allocate and free: a driver that does either may wait for kernels, and these for other ranks of the process.
#include <barrier>
#include <iterator>

#include "../sanitizer.h"
#include "gpu_job.h"

namespace {

using horing::test::FakeCuda;
using horing::test::firstUnderSanitizer;
using horing::test::GpuRank;
using horing::test::kKernelModel;
using horing::test::kOutOfMemory;
using horing::test::ParoOnGpu;

// The first five have parameters, gradients and optimizer state in all ways: none, those of a group, and those of all ranks are sharded.
constexpr horingParoStrategy_t kStrategies[] = {
    horingParoNNN, horingParoIII, horingParoNIG, horingParoIGG, horingParoGGG, horingParoNNI, horingParoNII,
    horingParoINI, horingParoNNG, horingParoNGG, horingParoING, horingParoIIG, horingParoGNG, horingParoGIG};
static_assert(std::size(kStrategies) == horingParoNumStrategies);

class ParoGpuMemory : public ParoOnGpu {
 protected:
  void TearDown() override {
    cuda_.waitForKernels(FakeCuda::kNone);
    ParoOnGpu::TearDown();
  }
  // That a driver may hold up.
  int memoryCalls() const {
    int calls = 0;
    for (const char* const each : {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost"})
      calls += cuda_.calls(each);
    return calls;
  }
};

uint64_t heldBy(horingParo_t paro) {
  horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
  EXPECT_PARO(horingParoGetUsage(paro, &usage));
  return usage.stateBytes + usage.gradBufferBytes + usage.gatheredBytes;
}

// All calls of a step; `reference` takes it, too.
void trainStep(horingParo_t paro, Trainee& trainee, int step, int ranks, Reference& reference) {
  constexpr int kMicroSteps = 2;
  ASSERT_NO_FATAL_FAILURE(trainee.expectParams(reference));
  for (int micro = 0; micro < kMicroSteps; ++micro) ASSERT_NO_FATAL_FAILURE(trainee.giveGrads(micro, step));
  ASSERT_PARO(horingParoSyncGrads(paro));
  double norm = 0;
  ASSERT_PARO(horingParoGetGradNorm(paro, &norm, nullptr));
  EXPECT_GT(norm, 0);
  ASSERT_NO_FATAL_FAILURE(trainee.updateShards(Optimizer::kSgd));
  ASSERT_PARO(horingParoSyncParams(paro));
  reference.step(ranks, kMicroSteps, step, 1);
}

// Buckets of which the longest is gathered when all there is are in use, or too short.
const std::vector<horingParoParam_t> kLongLast = {
    {500, horingFloat32, 1}, {500, horingFloat32, 1}, {1003, horingFloat32, 1}, {501, horingBfloat16, 1}};

TEST_F(ParoGpuMemory, TrainingNeitherAllocatesNorFrees) {
  for (const bool by_kernels : {false, true}) {
    SCOPED_TRACE(by_kernels);
    destroyAll(comms_);
    by_kernels ? meetOnGpus(2, 2) : meetStaged({3, 1});
    std::barrier all_here(ranks());
    for (const horingParoStrategy_t strategy : firstUnderSanitizer(5, kStrategies)) {
      SCOPED_TRACE(strategy);
      onGpus(configOf(strategy), kLongLast, [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
        trainee.initialise();
        Reference reference(kLongLast, Optimizer::kSgd);
        trainStep(paro, trainee, 0, ranks(), reference);
        const uint64_t held = heldBy(paro);
        all_here.arrive_and_wait();
        const int before = memoryCalls();
        all_here.arrive_and_wait();
        for (int step = 1; step < 4; ++step) trainStep(paro, trainee, step, ranks(), reference);
        trainee.expectParams(reference);
        EXPECT_EQ(heldBy(paro), held);
        all_here.arrive_and_wait();
        EXPECT_EQ(memoryCalls() - before, 0);
        all_here.arrive_and_wait();
      });
      if (HasFailure()) return;
    }
  }
}

// A rank that allocates waits for the kernels of the others, whose next calls wait for it.
TEST_F(ParoGpuMemory, RanksDoNotWaitForEachOtherInTheDriver) {
  const Setting timeout("HORING_TIMEOUT_MS", 10'000);
  for (const int second_group : {2, 1}) {
    SCOPED_TRACE(second_group);
    destroyAll(comms_);
    meetOnGpus(2, second_group);
    std::barrier all_here(ranks());
    for (const horingParoStrategy_t strategy : firstUnderSanitizer(5, kStrategies)) {
      SCOPED_TRACE(strategy);
      onGpus(configOf(strategy), kKernelModel, [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
        trainee.initialise();
        Reference reference(kKernelModel, Optimizer::kSgd);
        (void)mine.access()->give({});
        all_here.arrive_and_wait();
        cuda_.waitForKernels(FakeCuda::kAllocations);
        for (int step = 0; step < 2; ++step) trainStep(paro, trainee, step, ranks(), reference);
        trainee.expectParams(reference);
        const uint64_t held = heldBy(paro);
        trainee.expectMasters(reference);  // allocates, and frees
        EXPECT_EQ(heldBy(paro), held);
        all_here.arrive_and_wait();
        cuda_.waitForKernels(FakeCuda::kNone);
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(ParoGpuMemory, AllRanksAreToldThatOneHasNone) {
  meetStaged({2, 2});
  std::barrier all_here(ranks());
  onGpus(configOf(horingParoGGG), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
    trainee.initialise();
    const uint64_t held = heldBy(paro);
    for (const auto gather : {horingParoGatherParams, horingParoGatherMasters}) {
      all_here.arrive_and_wait();
      if (trainee.rank() == 0) cuda_.fail("cuMemAlloc", kOutOfMemory, 0, 1);
      all_here.arrive_and_wait();
      EXPECT_TRUE(paroRefuses(gather(paro, 1), horingSystemError, "for gathered parameters, "));
      EXPECT_NE(std::string(horingParoGetLastError()).find("rank "), std::string::npos);
      EXPECT_EQ(heldBy(paro), held);
    }
    trainee.expectParams(Reference(kModel, Optimizer::kSgd));
  });
}

}  // namespace
