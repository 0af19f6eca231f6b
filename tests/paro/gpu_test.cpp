// Training in memory of a GPU gives what one rank alone would get, to the bit. The driver is the fake one.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "../sanitizer.h"
#include "../temporary_folder.h"
#include "gpu_job.h"

namespace {

using horing::test::GpuAccess;
using horing::test::GpuRank;
using horing::test::GpuVector;
using horing::test::kKernelModel;
using horing::test::ParoOnGpu;
using horing::test::PinnedVector;
using horing::test::runElements;

class ParoOnGpus : public ParoOnGpu, public testing::WithParamInterface<Sizes> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ParoOnGpu::SetUp());
    meetStaged(GetParam());
  }
  bool averagesExactly() const { return GetParam() != Sizes{3, 1}; }
};

TEST_P(ParoOnGpus, TrainsLikeOneRankOnEveryStrategy) {
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
    train(config, kModel, Optimizer::kAdam, 3);
    config.average = averagesExactly();
    config.gradsInFloat32 = number % 2;
    train(config, kModel, Optimizer::kSgd, 2);
    if (HasFailure()) return;
  }
}

// Masters in float32 or float64 beside parameters that are gathered in 16 bits: every conversion.
TEST_P(ParoOnGpus, GathersInNarrowerTypes) {
  for (const horingDataType_t type : {horingBfloat16, horingFloat16, horingFloat32})
    for (const auto strategy : {horingParoNNN, horingParoIIG, horingParoGGG}) {
      SCOPED_TRACE(type);
      horingParoConfig_t config = configOf(strategy);
      config.gatherType = type;
      train(config, kModel, Optimizer::kSgd, 2);
      if (HasFailure()) return;
    }
}

TEST_P(ParoOnGpus, KnowTheNormAndOverflow) {
  for (const auto strategy : {horingParoNNN, horingParoIII, horingParoNIG, horingParoGGG}) {
    onGpus(configOf(strategy), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
      trainee.initialise();
      double expected = 0;
      for (size_t p = 0; p < kModel.size(); ++p)
        for (size_t i = 0; kModel[p].trainable && i < kModel[p].count; ++i) {
          double sum = 0;
          for (int other = 0; other < ranks(); ++other) sum += gradient(other, 0, 0, p, i);
          expected += sum * sum;
        }
      for (int round = 0; round < 2; ++round) {  // the second is not the sum of both
        trainee.giveGrads(0, 0);
        ASSERT_PARO(horingParoSyncGrads(paro));
        double norm = 0;
        int overflow = -1;
        ASSERT_PARO(horingParoGetGradNorm(paro, &norm, &overflow));
        EXPECT_DOUBLE_EQ(norm, std::sqrt(expected));
        EXPECT_EQ(overflow, 0);
        ASSERT_PARO(horingParoSyncParams(paro));
      }
      // An infinity of the last rank in one parameter.
      trainee.giveGrads(0, 0);
      ASSERT_PARO(horingParoSyncGrads(paro));
      const float infinite = INFINITY;
      horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
      ASSERT_PARO(horingParoGetShard(paro, 0, &shard));
      if (shard.count > 0 && shard.first == 0) mine.access()->write(shard.grads, &infinite, sizeof infinite);
      double norm = 0;
      int overflow = -1;
      ASSERT_PARO(horingParoGetGradNorm(paro, &norm, &overflow));
      EXPECT_FALSE(std::isfinite(norm));
      EXPECT_EQ(overflow, 1);
      ASSERT_PARO(horingParoSyncParams(paro));
    });
    if (HasFailure()) return;
  }
}

TEST_P(ParoOnGpus, SaveWhatTheHostLoadsAndTheOtherWayRound) {
  const horing::test::TemporaryFolder from_gpu, from_host;
  Reference reference(kModel, Optimizer::kSgd);
  reference.step(ranks(), 1, 0, 1);
  onGpus(configOf(horingParoIIG), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
    trainee.initialise();
    ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kSgd, 1, 0));
    ASSERT_PARO(horingParoSave(paro, from_gpu.path().c_str(), 6));
    ASSERT_PARO(horingParoStartSave(paro, from_gpu.path().c_str(), 7));
    ASSERT_PARO(horingParoWaitSave(paro));
    horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
    ASSERT_PARO(horingParoGetUsage(paro, &usage));
    EXPECT_EQ(usage.snapshotBytes, 0u);
  });
  onClients(comms_, configOf(horingParoGGG), kModel, [&](horingParo_t paro, Trainee& trainee) {
    uint64_t step = 0;
    ASSERT_PARO(horingParoLoad(paro, from_gpu.path().c_str(), &step));
    EXPECT_EQ(step, 7u);
    trainee.expectParams(reference);
    ASSERT_PARO(horingParoSave(paro, from_host.path().c_str(), 8));
  });
  onGpus(configOf(horingParoNIG), kModel, [&](horingParo_t paro, Trainee& trainee, GpuRank&) {
    uint64_t step = 0;
    ASSERT_PARO(horingParoLoad(paro, from_host.path().c_str(), &step));
    EXPECT_EQ(step, 8u);
    trainee.expectParams(reference);
    trainee.expectMasters(reference);
  });
}

// A rank that computes on its stream and never waits for it: everything is done when the stream gets there, in the right order.
class Ahead {
 public:
  Ahead(const horing::test::FakeCuda& cuda, horingParo_t paro, GpuRank& mine, size_t count)
      : paro_(paro),
        mine_(mine),
        count_(count),
        ones_(cuda, mine.gpu(), std::vector<float>(count, 1)),
        grads_(cuda, mine.gpu(), count),
        params_(cuda, mine.gpu(), count) {}

  // The gradient of `times` micro-steps is 1 each; the new parameters are the sum over ranks.
  void step(int times) const {
    const GpuAccess& access = *mine_.access();
    for (int micro = 0; micro < times; ++micro) {
      const void* params = nullptr;
      void* grads = nullptr;
      ASSERT_PARO(horingParoGatherParams(paro_, 0));
      ASSERT_PARO(horingParoGetParam(paro_, 0, &params));
      ASSERT_PARO(horingParoOpenGrads(paro_, 0));
      ASSERT_PARO(horingParoGetGrad(paro_, 0, &grads));
      access.copy(grads, ones_.data(), count_ * sizeof(float));
      ASSERT_PARO(horingParoReduceGrads(paro_, 0));
      ASSERT_PARO(horingParoReleaseParams(paro_, 0));
    }
    ASSERT_PARO(horingParoSyncGrads(paro_));
    horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
    ASSERT_PARO(horingParoGetShard(paro_, 0, &shard));
    access.copy(shard.master, shard.grads, shard.count * sizeof(float));
    ASSERT_PARO(horingParoSyncParams(paro_));
  }
  // Into params().
  void readParams() const {
    const void* params = nullptr;
    ASSERT_PARO(horingParoGatherParams(paro_, 0));
    ASSERT_PARO(horingParoGetParam(paro_, 0, &params));
    mine_.access()->copy(params_.data(), params, count_ * sizeof(float));
    ASSERT_PARO(horingParoReleaseParams(paro_, 0));
  }
  std::vector<float> params() const { return params_.values(); }

 private:
  const horingParo_t paro_;
  GpuRank& mine_;
  const size_t count_;
  const PinnedVector<float> ones_, grads_, params_;
};

TEST_P(ParoOnGpus, LetOnlyTheStreamWait) {
  constexpr size_t kCount = 1003;
  const auto all_have = [&](int ones) {
    return std::vector<float>(kCount, static_cast<float>(ones * ranks()));
  };
  const std::vector<horingParoParam_t> params = {{kCount, horingFloat32, 1}};
  std::barrier all_here(ranks());
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    std::atomic<bool> gate = false, was_kept = false, is_over = false;
    // Whoever waits on the host gets on in the end, and is noticed.
    std::thread guard([&] {
      for (int i = 0; i < 3000 && !is_over; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (!is_over) gate = was_kept = true;
    });
    onGpus(configOf(static_cast<horingParoStrategy_t>(number)), params,
           [&](horingParo_t paro, Trainee& trainee, GpuRank& mine) {
             const Ahead ahead(cuda_, paro, mine, kCount);
             ahead.step(3);  // allocates what there is to allocate
             ahead.readParams();
             mine.stream().synchronize();
             EXPECT_EQ(ahead.params(), all_have(3));
             all_here.arrive_and_wait();
             mine.stream().waitFor(gate);
             ahead.step(2);
             ahead.readParams();
             EXPECT_FALSE(mine.stream().idle());
             EXPECT_EQ(ahead.params(), all_have(3));
             all_here.arrive_and_wait();
             EXPECT_FALSE(was_kept) << "a call has waited on the host";
             if (trainee.rank() == 0) is_over = gate = true;
             mine.stream().synchronize();
             EXPECT_EQ(ahead.params(), all_have(2));
           });
    is_over = gate = true;
    guard.join();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(, ParoOnGpus, testing::Values(Sizes{2, 2}, Sizes{3, 1}, Sizes{1}));

TEST_F(ParoOnGpu, TrainsWhereCollectivesAreKernels) {
  meetOnGpus(2, 2);
  // Which all that goes through the host needs.
  cuda_.fail("cuStreamWaitValue32", 999);
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    train(configOf(static_cast<horingParoStrategy_t>(number)), kKernelModel, Optimizer::kAdam, 2);
    if (HasFailure()) return;
  }
}

// Bits of any kind, as the host computes with them.
TEST(ParoElements, AreComputedLikeOnTheHost) {
  constexpr size_t kCount = 100'003;
  const horingDataType_t types[] = {horingFloat16, horingBfloat16, horingFloat32, horingFloat64};
  std::mt19937_64 random(7);
  std::vector<uint64_t> bits(kCount + 1);
  for (uint64_t& each : bits) each = random();
  // float64 just above or below the middle of two bfloat16, or float16, where rounding twice goes wrong.
  for (size_t i = 0; i < kCount; i += 3) {
    const int kept = i % 2 == 0 ? 7 : 10;  // of the 52 bits of a mantissa
    const uint64_t exponent = 1015 + bits[i] % 16, leading = random() >> (64 - kept);
    const uint64_t middle = (2 * leading + 1) << (51 - kept);
    bits[i] = (exponent << 52) + middle + (i % 4 < 2 ? 1 : -1);
  }
  for (const horingDataType_t from : types)
    for (const horingDataType_t to : types) {
      if (from == to) continue;  // copied
      std::vector<uint64_t> here(kCount + 1), there(kCount + 1);
      ASSERT_PARO(horingParoConvert(bits.data(), from, here.data(), to, kCount));
      const horing::cuda::ElementCall call{horing::cuda::ElementWork::kConvert,
                                           static_cast<horing::DataType>(from),
                                           static_cast<horing::DataType>(to),
                                           bits.data(),
                                           there.data(),
                                           kCount,
                                           1};
      runElements(&call, {3, 1, 1});
      size_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const char* const mine = reinterpret_cast<const char*>(here.data()) + i * bytesOf(to);
        const char* const theirs = reinterpret_cast<const char*>(there.data()) + i * bytesOf(to);
        const bool both_nan =
            std::isnan(asDouble(here.data(), to, i)) && std::isnan(asDouble(there.data(), to, i));
        wrong += !both_nan && std::memcmp(mine, theirs, bytesOf(to)) != 0;
      }
      EXPECT_EQ(wrong, 0u) << from << " to " << to;
    }
}

}  // namespace
