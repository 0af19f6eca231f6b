// Clients in memory of GPUs that fails, is the caller's, or is not there.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "../temporary_folder.h"
#include "gpu_job.h"

namespace {

using horing::test::CurrentGpu;
using horing::test::FakeCuda;
using horing::test::GpuRank;
using horing::test::GpuVector;
using horing::test::kElementKernels;
using horing::test::kOutOfMemory;
using horing::test::ParoOnGpu;

class ParoOnGpuTrouble : public ParoOnGpu {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ParoOnGpu::SetUp());
    meetStaged({2});
  }
  // Two ranks whose collectives end after so long.
  void meetBriefly(int timeout_ms, bool by_kernels = false) {
    destroyAll(comms_);
    const Setting timeout("HORING_TIMEOUT_MS", timeout_ms);
    by_kernels ? meetOnGpus(1, 1) : meetStaged({2});
  }
  // Creates a client of kModel on every rank: `edit` its memory.
  template <typename Edit>
  void expectRefused(horingResult_t expected, const char* named, Edit edit) {
    onEveryRank(ranks(), [&](int rank) {
      GpuRank mine(cuda_, rank);
      edit(rank, mine.memory());
      horingParoConfig_t config = configOf(horingParoGGG);
      config.memory = &mine.memory();
      horingParo_t paro = nullptr;
      EXPECT_TRUE(paroRefuses(horingParoCreate(&paro, comm(rank), &config, kModel.data(), kModel.size()),
                              expected, named));
    });
  }
  static void leave(int, horingParoMemory_t&) {}
};

TEST_F(ParoOnGpuTrouble, NoMemoryNamesWhatWasWanted) {
  // The first is for partial sums; of 1003 float32, and 5 that align shards, a half on each rank.
  cuda_.fail("cuMemAlloc", kOutOfMemory, 2);
  expectRefused(horingSystemError,
                "for the parameters of a bucket, 2016 bytes: take a strategy that needs less", leave);
  cuda_.fail("cuMemAlloc", kOutOfMemory, 0);
  expectRefused(horingSystemError, "there is no memory on GPU ", leave);
  cuda_.fail(nullptr, 0);
  // Later, too; then the call has changed nothing.
  std::barrier all_here(2);
  onGpus(configOf(horingParoGGG), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
    trainee.initialise();
    all_here.arrive_and_wait();
    cuda_.fail("cuMemAlloc", kOutOfMemory, 0);
    EXPECT_TRUE(
        paroRefuses(horingParoGatherParams(paro, 0), horingSystemError, "for gathered parameters, 40"));
    all_here.arrive_and_wait();
    cuda_.fail(nullptr, 0);
    all_here.arrive_and_wait();
    trainee.expectParams(Reference(kModel, Optimizer::kSgd));
  });
}

// The rest of the text says whether a CUDA compiler built the library.
TEST_F(ParoOnGpuTrouble, WithoutKernelsThereIsNoClient) {
  cuda_.setKernels(nullptr);
  expectRefused(horingUnhandledCudaError, "kernels", leave);
  cuda_.setKernels(&kElementKernels);
}

TEST_F(ParoOnGpuTrouble, RanksAgreeOnTheKindOfMemory) {
  expectRefused(horingInvalidUsage, "memory.onGpu", [](int rank, horingParoMemory_t& memory) {
    if (rank == 1) memory = HORING_PARO_MEMORY_INITIALIZER;
  });
}

TEST_F(ParoOnGpuTrouble, WhatDoesNotFitTogetherIsRefused) {
  expectRefused(horingInvalidArgument, "one of allocate and release",
                [](int, horingParoMemory_t& memory) { memory.release = [](void*, size_t, void*) {}; });
  expectRefused(horingInvalidArgument, "expected onGpu 1, or no stream",
                [](int, horingParoMemory_t& memory) { memory.onGpu = 0; });
}

TEST_F(ParoOnGpuTrouble, GradientsOfTheHostAreRefused) {
  onGpus(configOf(horingParoGGG), {{5, horingFloat32, 1}}, [&](horingParo_t paro, Trainee&, GpuRank&) {
    const float values[5] = {};
    const void* const grads[] = {values};
    EXPECT_TRUE(paroRefuses(horingParoReduceGradsOf(paro, 0, grads, 1), horingInvalidArgument,
                            "a gradient of parameter 0 is at 0x"));
  });
}

TEST_F(ParoOnGpuTrouble, ValuesOfAnotherGpuAreRefused) {
  onGpus(configOf(horingParoGGG), {{100, horingBfloat16, 1}},
         [&](horingParo_t paro, Trainee&, GpuRank& mine) {
           const std::vector<float> ones(100, 1);
           const GpuVector<float> there(cuda_, (mine.gpu() + 1) % cuda_.gpus(), ones);
           const GpuVector<float> here(cuda_, mine.gpu(), ones);
           EXPECT_TRUE(paroRefuses(horingParoSetParam(paro, 0, there.data(), 100, horingFloat32),
                                   horingInvalidArgument, "the values of parameter 0 are at 0x"));
           EXPECT_PARO(horingParoSetParam(paro, 0, here.data(), 100, horingFloat32));
           mine.stream().synchronize();
         });
}

TEST_F(ParoOnGpuTrouble, TheStreamHasOneGpuInAllThreads) {
  expectRefused(horingInvalidUsage, "call cudaSetDevice before, or give a stream",
                [](int, horingParoMemory_t& memory) { memory.stream = nullptr; });
  expectRefused(horingInvalidArgument, "memory.stream is cudaStreamPerThread",
                [](int, horingParoMemory_t& memory) { memory.stream = reinterpret_cast<void*>(0x2); });
}

TEST_F(ParoOnGpuTrouble, AnErrorOfTheStreamComesOutOfALaterCall) {
  meetBriefly(500);
  onGpus(configOf(horingParoGGG), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
    // Allocates memory, for which it waits for the other rank.
    ASSERT_PARO(horingParoGatherParams(paro, 0));
    ASSERT_PARO(horingParoReleaseParams(paro, 0));
    if (trainee.rank() == 1) return;
    ASSERT_PARO(horingParoGatherParams(paro, 0));
    const void* params = nullptr;
    horingResult_t result = horingSuccess;
    for (int i = 0; i < 2000 && result == horingSuccess; ++i) {
      result = horingParoGetParam(paro, 0, &params);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_NE(result, horingSuccess);
    EXPECT_NE(std::string(horingParoGetLastError()).find("rank 1"), std::string::npos)
        << horingParoGetLastError();
    EXPECT_EQ(horingParoSyncGrads(paro), result);
  });
}

// Calls are not part of a graph, and leave its recording alone.
TEST_F(ParoOnGpuTrouble, CallsWhileTheStreamRecordsAGraphAreRefused) {
  onGpus(configOf(horingParoGGG), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
    trainee.initialise();
    mine.stream().synchronize();
    const auto use = mine.stream().use();
    ASSERT_EQ(cuda_.call<int(void*, int)>("cuStreamBeginCapture_v2")(mine.stream().get(), 1), 0);
    const void* param = nullptr;
    void* grad = nullptr;
    double norm = 0;
    horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
    const std::vector<float> values(kModel[0].count);
    const void* const grads[1] = {};
    const horingResult_t refused[] = {
        horingParoSetParam(paro, 0, values.data(), values.size(), horingFloat32),
        horingParoGatherParams(paro, 0),
        horingParoGatherMasters(paro, 0),
        horingParoGetParam(paro, 0, &param),
        horingParoReleaseParams(paro, 0),
        horingParoOpenGrads(paro, 0),
        horingParoGetGrad(paro, 0, &grad),
        horingParoReduceGrads(paro, 0),
        horingParoReduceGradsOf(paro, 0, grads, 1),
        horingParoDiscardGrads(paro, 0),
        horingParoSyncGrads(paro),
        horingParoGetGradNorm(paro, &norm, nullptr),
        horingParoGetShard(paro, 0, &shard),
        horingParoGetMaster(paro, 0, &shard),
        horingParoSyncParams(paro),
        horingParoCheckFolder(paro, "/"),
        horingParoSave(paro, "/", 0),
        horingParoStartSave(paro, "/", 0),
        horingParoLoad(paro, "/", nullptr),
        horingParoLoadByName(paro, "/", 0, nullptr, nullptr)};
    for (size_t i = 0; i < std::size(refused); ++i) EXPECT_EQ(refused[i], horingInvalidUsage) << i;
    EXPECT_TRUE(paroRefuses(horingParoDestroy(paro), horingInvalidUsage, "records a graph"));
    horingParoConfig_t config = configOf(horingParoGGG);
    config.memory = &mine.memory();
    horingParo_t other = nullptr;
    EXPECT_TRUE(
        paroRefuses(horingParoCreate(&other, comm(trainee.rank()), &config, kModel.data(), kModel.size()),
                    horingInvalidUsage, "records a graph"));
    void* graph = nullptr;
    ASSERT_EQ(cuda_.call<int(void*, void**)>("cuStreamEndCapture")(mine.stream().get(), &graph), 0);
    EXPECT_EQ(cuda_.call<int(void*)>("cuGraphDestroy")(graph), 0);
    Reference reference(kModel, Optimizer::kSgd);
    ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kSgd, 1, 0));
    reference.step(ranks(), 1, 0, 1);
    trainee.expectParams(reference);
  });
}

// A reduction that fails lets the stream go on with partial sums.
TEST_F(ParoOnGpuTrouble, ThereIsNoNormOfAReductionThatFailed) {
  constexpr int kRounds = 8;  // each may meet the moment between the two
  for (int round = 0; round < kRounds; ++round) {
    const bool by_kernels = round % 2 == 1;
    SCOPED_TRACE(by_kernels);
    meetBriefly(200, by_kernels);
    std::barrier all_here(2);
    onGpus(configOf(horingParoNNN), {{1000, horingFloat32, 1}},
           [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
             // Allocates memory, for which it waits for the other rank.
             ASSERT_PARO(horingParoOpenGrads(paro, 0));
             ASSERT_PARO(horingParoDiscardGrads(paro, 0));
             if (trainee.rank() == 0) {
               trainee.giveGrads(0, 0);
               ASSERT_PARO(horingParoSyncGrads(paro));
               double norm = -1;
               int overflow = -1;
               const horingResult_t result = horingParoGetGradNorm(paro, &norm, &overflow);
               EXPECT_NE(result, horingSuccess) << norm;
               EXPECT_NE(std::string(horingParoGetLastError()).find("rank 1"), std::string::npos)
                   << horingParoGetLastError();
               EXPECT_EQ(horingParoSyncParams(paro), result);
             }
             all_here.arrive_and_wait();
           });
  }
  cuda_.setKernels(&kElementKernels);
}

TEST_F(ParoOnGpuTrouble, AnErrorOfTheGpuSticks) {
  std::barrier all_here(2);
  onGpus(configOf(horingParoNNN), {{5, horingBfloat16, 1}},
         [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
           trainee.initialise();
           trainee.giveGrads(0, 0);
           all_here.arrive_and_wait();
           cuda_.fail("cuLaunchKernel", 999);  // which adds those of the next micro-step
           all_here.arrive_and_wait();
           ASSERT_PARO(horingParoOpenGrads(paro, 0));
           const std::string named = "rank " + std::to_string(trainee.rank()) + ", on GPU " +
                                     std::to_string(mine.gpu()) + ": launching a kernel";
           EXPECT_TRUE(paroRefuses(horingParoReduceGrads(paro, 0), horingUnhandledCudaError, named.c_str()));
           all_here.arrive_and_wait();
           cuda_.fail(nullptr, 0);
           EXPECT_TRUE(paroRefuses(horingParoSyncGrads(paro), horingUnhandledCudaError, named.c_str()));
         });
}

// A collective that was issued and has no event to wait for would be read too early, or issued twice.
TEST_F(ParoOnGpuTrouble, AnEventThatFailsSticks) {
  destroyAll(comms_);
  meetStaged({1});
  for (const int good : {0, 2})  // the event before the collective, and the one after it
    onGpus(configOf(horingParoGGG), {{1000, horingFloat32, 1}},
           [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
             trainee.initialise();
             ASSERT_PARO(horingParoGatherParams(paro, 0));  // allocates memory
             ASSERT_PARO(horingParoReleaseParams(paro, 0));
             mine.stream().synchronize();
             cuda_.fail("cuEventRecord", 999, good, 1);
             EXPECT_TRUE(paroRefuses(horingParoGatherParams(paro, 0), horingUnhandledCudaError,
                                     "rank 0, on GPU 0: marking a place on a stream"));
             cuda_.fail(nullptr, 0);
             EXPECT_TRUE(paroRefuses(horingParoGatherParams(paro, 0), horingUnhandledCudaError,
                                     "rank 0, on GPU 0: marking a place on a stream"));
           });
}

TEST_F(ParoOnGpuTrouble, AWaitThatDoesNotEndNamesTheRank) {
  std::atomic<bool> gate = false;
  std::barrier all_here(2);
  onGpus(configOf(horingParoNNN), {{5, horingFloat32, 1}},
         [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
           trainee.initialise();
           trainee.giveGrads(0, 0);
           ASSERT_PARO(horingParoSyncGrads(paro));
           mine.stream().synchronize();
           if (trainee.rank() == 1) {
             mine.stream().waitFor(gate);
             EXPECT_HORING(horingCommSetTimeout(comm(1), 300));
             double norm = 0;
             EXPECT_TRUE(paroRefuses(horingParoGetGradNorm(paro, &norm, nullptr), horingTimeout,
                                     "rank 1, on GPU 1: stream 0x"));
           }
           all_here.arrive_and_wait();
           gate = true;
           mine.stream().synchronize();
         });
}

// A rank that cannot copy its part keeps all from saving.
TEST_F(ParoOnGpuTrouble, AllRanksAreToldWhichCannotCopy) {
  std::barrier all_here(2);
  onGpus(configOf(horingParoGGG), {{1000, horingFloat32, 1}},
         [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
           trainee.initialise();
           mine.stream().synchronize();
           all_here.arrive_and_wait();
           cuda_.fail("cuMemcpyAsync", 999);
           all_here.arrive_and_wait();
           const horing::test::TemporaryFolder folder;
           EXPECT_EQ(horingParoSave(paro, folder.path().c_str(), 1), horingUnhandledCudaError);
           EXPECT_EQ(std::string(horingParoGetLastError()).find("rank 0, on GPU 0: copying: "), 0u)
               << horingParoGetLastError();
           all_here.arrive_and_wait();
           cuda_.fail(nullptr, 0);
         });
}

// Memory of a caller, on a GPU or of the host.
class Pool {
 public:
  Pool(const FakeCuda& cuda, int gpu, bool on_gpu) : cuda_(cuda), gpu_(gpu), on_gpu_(on_gpu) {}
  void lend(horingParoMemory_t& memory) {
    memory.allocate = [](size_t bytes, void* pool) { return static_cast<Pool*>(pool)->allocate(bytes); };
    memory.release = [](void* at, size_t bytes, void* pool) { static_cast<Pool*>(pool)->release(at, bytes); };
    memory.context = this;
  }
  size_t lent() const { return lent_; }
  size_t most() const { return most_; }
  // What was not given back.
  void takeBack() {
    while (!pieces_.empty()) release(pieces_.begin()->first, pieces_.begin()->second);
  }
  size_t room = SIZE_MAX;
  size_t shift = 0;

 private:
  void* allocate(size_t bytes) {
    if (lent_ + bytes > room) return nullptr;
    void* at = nullptr;
    if (on_gpu_) {
      const CurrentGpu current(cuda_, gpu_);
      unsigned long long address = 0;
      EXPECT_EQ(cuda_.call<int(unsigned long long*, size_t)>("cuMemAlloc_v2")(&address, bytes + shift), 0);
      at = reinterpret_cast<void*>(address + shift);
    } else {
      at = std::aligned_alloc(64, (bytes + shift + 63) / 64 * 64);
      std::memset(at, 7, bytes);
    }
    pieces_[at] = bytes;
    lent_ += bytes;
    most_ = std::max(most_, lent_);
    return at;
  }
  void release(void* at, size_t bytes) {
    EXPECT_EQ(pieces_.erase(at), 1u);
    lent_ -= bytes;
    if (!on_gpu_) return std::free(at);
    const CurrentGpu current(cuda_, gpu_);
    EXPECT_EQ(cuda_.call<int(unsigned long long)>("cuMemFree_v2")(reinterpret_cast<uintptr_t>(at) - shift),
              0);
  }

  const FakeCuda& cuda_;
  const int gpu_;
  const bool on_gpu_;
  std::map<void*, size_t> pieces_;  // bytes
  size_t lent_ = 0, most_ = 0;
};

TEST_F(ParoOnGpuTrouble, MemoryOfTheCallerHoldsEverything) {
  for (const bool on_gpu : {true, false})
    onEveryRank(ranks(), [&](int rank) {
      SCOPED_TRACE(on_gpu);
      GpuRank mine(cuda_, rank);
      Pool pool(cuda_, mine.gpu(), on_gpu);
      if (!on_gpu) mine.memory() = HORING_PARO_MEMORY_INITIALIZER;
      pool.lend(mine.memory());
      horingParoConfig_t config = configOf(horingParoIIG);
      config.memory = &mine.memory();
      horingParo_t paro = nullptr;
      ASSERT_PARO(horingParoCreate(&paro, comm(rank), &config, kModel.data(), kModel.size()));
      Trainee trainee(paro, rank, kModel, on_gpu ? mine.access() : std::make_shared<const Access>());
      trainee.initialise();
      Reference reference(kModel, Optimizer::kAdam);
      ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kAdam, 2, 0));
      reference.step(ranks(), 2, 0, 1);
      trainee.expectParams(reference);
      horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
      ASSERT_PARO(horingParoGetUsage(paro, &usage));
      const uint64_t counted = usage.stateBytes + usage.gradBufferBytes + usage.gatheredBytes;
      EXPECT_EQ(pool.lent(), counted + (on_gpu ? 262'144 : 0));  // partial sums
      EXPECT_PARO(horingParoDestroy(paro));
      EXPECT_EQ(pool.lent(), 0u);
    });
}

// Memory stays, and destruction waits once, whatever number of buckets there is, and as long as the communicator says then.
TEST_F(ParoOnGpuTrouble, WorkThatDoesNotEndIsAwaitedOnce) {
  const std::vector<horingParoParam_t> model(10, {1000, horingBfloat16, 1});
  std::atomic<bool> gate = false;
  std::barrier all_here(2);
  onEveryRank(2, [&](int rank) {
    GpuRank mine(cuda_, rank);
    Pool pool(cuda_, mine.gpu(), /*on_gpu=*/true);
    pool.lend(mine.memory());
    horingParoConfig_t config = configOf(horingParoGGG);
    config.memory = &mine.memory();
    horingParo_t paro = nullptr;
    ASSERT_PARO(horingParoCreate(&paro, comm(rank), &config, model.data(), model.size()));
    const size_t lent = pool.lent();
    all_here.arrive_and_wait();
    if (rank == 0) mine.stream().waitFor(gate);
    EXPECT_HORING(horingCommSetTimeout(comm(rank), horing::test::kShortDeadlineMs));
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_PARO(horingParoDestroy(paro));
    const auto took = std::chrono::steady_clock::now() - begun;
    EXPECT_EQ(pool.lent(), rank == 0 ? lent : 0);
    if (rank == 0) {
      EXPECT_LT(took, std::chrono::milliseconds(2 * horing::test::kShortDeadlineMs));
    }
    all_here.arrive_and_wait();
    gate = true;
    mine.stream().synchronize();
    pool.takeBack();
  });
  live_ += 1;  // pinned memory for the partial sums of the rank that did not end
}

TEST_F(ParoOnGpuTrouble, MemoryOfTheCallerMustBeRight) {
  const auto expect_refused = [&](horingResult_t expected, const char* named, bool on_gpu, size_t room,
                                  size_t shift) {
    onEveryRank(ranks(), [&](int rank) {
      GpuRank mine(cuda_, rank);
      Pool pool(cuda_, mine.gpu(), on_gpu);
      pool.room = room;
      pool.shift = shift;
      pool.lend(mine.memory());
      horingParoConfig_t config = configOf(horingParoGGG);
      config.memory = &mine.memory();
      horingParo_t paro = nullptr;
      EXPECT_TRUE(paroRefuses(horingParoCreate(&paro, comm(rank), &config, kModel.data(), kModel.size()),
                              expected, named));
      EXPECT_EQ(pool.lent(), 0u);
    });
  };
  expect_refused(horingInvalidArgument, "which is not memory of GPU", false, SIZE_MAX, 0);
  expect_refused(horingInvalidArgument, "expected a multiple of 64", true, SIZE_MAX, 4);
  expect_refused(horingSystemError, "memory.allocate gave NULL for the gradients of a bucket", true, 264'204,
                 0);
}

}  // namespace
