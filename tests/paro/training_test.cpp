// Training on every strategy gives what one rank alone would get.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "../sanitizer.h"
#include "../temporary_folder.h"
#include "job.h"

namespace {

class Training : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override { comms_ = makeGroupsOf(GetParam()); }
  void TearDown() override { destroyAll(comms_); }
  int ranks() const { return std::accumulate(GetParam().begin(), GetParam().end(), 0); }
  bool isEven() const { return std::ranges::count(GetParam(), GetParam()[0]) == std::ssize(GetParam()); }
  // Averages over groups, and over all, have no roundings.
  bool averagesExactly() const {
    const auto exact = [](int size) { return (size & (size - 1)) == 0; };
    return exact(ranks()) && std::ranges::all_of(GetParam(), exact);
  }

  // Calls body(paro, trainee, rank) on every rank, of a fresh client.
  template <typename Body>
  void onClients(const horingParoConfig_t& config, Body body) {
    onEveryRank(ranks(), [&](int rank) {
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
      Trainee trainee(paro, rank, kModel);
      body(paro, trainee, rank);
      ASSERT_PARO(horingParoDestroy(paro));
    });
  }

  void train(const horingParoConfig_t& config, Optimizer optimizer, int micro_steps) {
    std::vector<Reference> after = {Reference(kModel, optimizer)};
    for (int step = 0; step < kSteps; ++step) {
      after.push_back(after.back());
      after.back().step(ranks(), micro_steps, step, config.average ? 1.0 / ranks() : 1.0);
    }
    onClients(config, [&](horingParo_t, Trainee& trainee, int) {
      trainee.initialise();
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_NO_FATAL_FAILURE(trainee.expectParams(after[static_cast<size_t>(step)]));
        ASSERT_NO_FATAL_FAILURE(trainee.step(optimizer, micro_steps, step));
      }
      trainee.expectParams(after.back());
    });
  }

  static constexpr int kSteps = 3;
  std::vector<horingComm_t> comms_;
};

TEST_P(Training, EqualsOneRankOnEveryStrategy) {
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
    train(config, Optimizer::kAdam, 3);
    config.average = averagesExactly();
    config.stateValues = 0;
    train(config, Optimizer::kSgd, 1);
    config.gradsInFloat32 = 1;
    train(config, Optimizer::kSgd, 2);
    if (HasFatalFailure() || HasFailure()) return;
  }
}

// What the formulas say of a client's buckets on one rank.
struct Expected {
  uint64_t state_bytes = 0;
  uint64_t largest_state_bytes =
      0;  // at least what the rank keeps that keeps the most of all buckets together
  double slow_bytes = 0, fast_bytes = 0;
  double most_gathered = 0, most_grads = 0;  // of one bucket
};
Expected expectedOf(horingParo_t paro, const Sizes& sizes, int rank, int micro_steps) {
  int group = 0, local = rank;
  for (; local >= sizes[static_cast<size_t>(group)]; ++group) local -= sizes[static_cast<size_t>(group)];
  horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
  EXPECT_PARO(horingParoGetInfo(paro, &info));
  Expected sum;
  for (int number = 0; number < info.numBuckets; ++number) {
    horingParoBucket_t bucket{};
    EXPECT_PARO(horingParoGetBucket(paro, number, &bucket));
    const size_t count = padded(bucket.count, bucket.type, std::accumulate(sizes.begin(), sizes.end(), 0));
    const size_t wire_bytes = bytesOf(bucket.type), grad_bytes = bytesOf(bucket.gradType);
    // 12 bytes for half precision; elsewhere the parameter is its own master.
    const int state_bytes = !bucket.trainable ? 0 : wire_bytes == 8 ? 16 : wire_bytes == 4 ? 8 : 12;
    const horingParoModel_t model{sizeof(horingParoModel_t),
                                  static_cast<int>(sizes.size()),
                                  0,
                                  bucket.count,
                                  bucket.trainable ? bucket.count : 0,
                                  micro_steps,
                                  static_cast<int>(wire_bytes),
                                  state_bytes,
                                  static_cast<int>(grad_bytes),
                                  sizes.data(),
                                  group,
                                  local,
                                  1,
                                  0};
    horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
    EXPECT_PARO(horingParoGetEstimate(info.strategy, &model, &cost));
    sum.state_bytes += cost.memoryBytes;
    sum.largest_state_bytes += cost.largestMemoryBytes;
    sum.slow_bytes += static_cast<double>(cost.slowBytes);
    sum.fast_bytes += static_cast<double>(cost.fastBytes);
    sum.most_gathered = std::max(sum.most_gathered, static_cast<double>(count * wire_bytes));
    if (bucket.trainable) sum.most_grads = std::max(sum.most_grads, static_cast<double>(count * grad_bytes));
  }
  return sum;
}

TEST_P(Training, KeepsAndSendsWhatTheFormulasSay) {
  constexpr int kMicroSteps = 2;
  const Reference start(kModel, Optimizer::kSgd);
  for (int number = 0; number < 2 * horingParoNumStrategies; ++number) {
    const auto strategy = static_cast<horingParoStrategy_t>(number / 2);
    SCOPED_TRACE(number);
    horingParoConfig_t config = configOf(strategy);
    config.gradsInFloat32 = number % 2;
    onClients(config, [&](horingParo_t paro, Trainee& trainee, int rank) {
      const Expected expected = expectedOf(paro, GetParam(), rank, kMicroSteps);
      horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
      ASSERT_PARO(horingParoGetInfo(paro, &info));
      EXPECT_EQ(info.strategy, strategy);
      EXPECT_EQ(info.groups, std::ssize(GetParam()));
      EXPECT_EQ(info.ranksPerGroup, isEven() ? GetParam()[0] : 0);
      EXPECT_EQ(info.params, 2027u);
      EXPECT_EQ(info.trainable, 1821u);

      trainee.initialise();
      for (int gather = 0; gather < 2 * kMicroSteps; ++gather) trainee.expectParams(start);
      trainee.step(Optimizer::kAdam, kMicroSteps, 0);
      horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
      ASSERT_PARO(horingParoGetUsage(paro, &usage));
      EXPECT_EQ(usage.stateBytes, info.memoryBytes);
      EXPECT_EQ(usage.stateBytes, expected.state_bytes);
      EXPECT_GE(expected.largest_state_bytes, info.largestMemoryBytes);
      if (isEven()) {
        EXPECT_EQ(expected.largest_state_bytes, info.largestMemoryBytes);
      }
      // No more than two are gathered, or open, at once.
      EXPECT_LE(static_cast<double>(usage.gradBufferBytes), 2 * expected.most_grads);
      EXPECT_GT(usage.gradBufferBytes, 0u);
      EXPECT_LE(static_cast<double>(usage.gatheredBytes),
                strategy < horingParoINI ? 0 : 2 * expected.most_gathered);
      // The formulas round each bucket's to bytes.
      EXPECT_NEAR(static_cast<double>(usage.slowBytes), expected.slow_bytes, info.numBuckets);
      EXPECT_NEAR(static_cast<double>(usage.fastBytes), expected.fast_bytes, info.numBuckets);
    });
    if (HasFailure()) return;
  }
}

TEST_P(Training, KnowsTheNormOfTheGradientAndOverflow) {
  for (const auto strategy : {horingParoNNN, horingParoIII, horingParoNIG, horingParoGGG}) {
    onClients(configOf(strategy), [&](horingParo_t paro, Trainee& trainee, int rank) {
      trainee.initialise();
      trainee.giveGrads(0, 0);
      ASSERT_PARO(horingParoSyncGrads(paro));
      double norm = 0, expected = 0;
      int overflow = -1;
      ASSERT_PARO(horingParoGetGradNorm(paro, &norm, &overflow));
      for (size_t p = 0; p < kModel.size(); ++p)
        for (size_t i = 0; kModel[p].trainable && i < kModel[p].count; ++i) {
          double sum = 0;
          for (int other = 0; other < ranks(); ++other) sum += gradient(other, 0, 0, p, i);
          expected += sum * sum;
        }
      EXPECT_DOUBLE_EQ(norm, std::sqrt(expected));
      EXPECT_EQ(overflow, 0);
      ASSERT_PARO(horingParoSyncParams(paro));

      // A NaN of one rank, with all bits set, plus an infinity is a NaN on all ranks.
      for (int round = 0; round < 10; ++round) {
        const int bucket = round % 5;
        if (!trainee.isTrainable(bucket)) continue;
        ASSERT_PARO(horingParoOpenGrads(paro, bucket));
        void* values = nullptr;
        horingParoPlace_t place{};
        ASSERT_PARO(horingParoGetPlace(paro, 9, &place));
        if (rank == ranks() - 1 && place.bucket == bucket) {
          ASSERT_PARO(horingParoGetGrad(paro, 9, &values));
          static_cast<uint16_t*>(values)[500] = round < 5 ? 0x7fff : 0x7f80;
        }
        ASSERT_PARO(horingParoReduceGrads(paro, bucket));
      }
      ASSERT_PARO(horingParoSyncGrads(paro));
      ASSERT_PARO(horingParoGetGradNorm(paro, &norm, &overflow));
      EXPECT_EQ(overflow, 1);
      EXPECT_FALSE(std::isfinite(norm));
      ASSERT_PARO(horingParoSyncParams(paro));
    });
    if (HasFailure()) return;
  }
}

TEST_P(Training, TakesNoGradientForZeros) {
  const std::vector<horingParoParam_t> params = {{5, horingFloat32, 1}, {7, horingFloat32, 1}};
  const std::vector<float> fives(5, 1), sevens(7, 1);
  for (int number = 0; number < horingParoNumStrategies; ++number)
    onEveryRank(ranks(), [&](int rank) {
      SCOPED_TRACE(number);
      const horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()));
      for (int step = 0; step < 2; ++step) {
        const void* const first[] = {nullptr, sevens.data()};
        const void* const second[] = {rank == 0 ? fives.data() : nullptr, nullptr};
        ASSERT_PARO(horingParoReduceGradsOf(paro, 0, first, 2));
        ASSERT_PARO(horingParoReduceGradsOf(paro, 0, second, 2));
        ASSERT_PARO(horingParoSyncGrads(paro));
        double norm = 0;
        ASSERT_PARO(horingParoGetGradNorm(paro, &norm, nullptr));
        EXPECT_DOUBLE_EQ(norm, std::sqrt(5 + 7.0 * ranks() * ranks()));
        ASSERT_PARO(horingParoSyncParams(paro));
      }
      // Gradients that stay whole are added up where they are kept. Between groups of different sizes they are exchanged.
      const horingParoStrategyInfo_t* row = nullptr;
      horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
      ASSERT_PARO(horingParoGetStrategy(config.strategy, &row));
      ASSERT_PARO(horingParoGetUsage(paro, &usage));
      const bool needs_none = row->grads == horingParoWhole && (isEven() || row->state != horingParoByGroup);
      EXPECT_EQ(usage.gradBufferBytes == 0, needs_none);
      EXPECT_PARO(horingParoDestroy(paro));
    });
}

// Sums that a 16-bit type cannot hold, and float32 can: 256 and then ones.
TEST_P(Training, ReducesInFloat32WhatIsNarrower) {
  const std::vector<horingParoParam_t> params = {
      {501, horingBfloat16, 1}, {19, horingFloat16, 1}, {30, horingFloat64, 1}, {11, horingBfloat16, 0}};
  constexpr int kMicroSteps = 5;
  for (int number = 0; number < horingParoNumStrategies; ++number)
    onEveryRank(ranks(), [&](int rank) {
      SCOPED_TRACE(number);
      horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
      config.gradsInFloat32 = 1;
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()));
      for (int micro = 0; micro < kMicroSteps; ++micro)
        for (int bucket = 0; bucket < 3; ++bucket) {
          ASSERT_PARO(horingParoOpenGrads(paro, bucket));
          void* values = nullptr;
          ASSERT_PARO(horingParoGetGrad(paro, static_cast<size_t>(bucket), &values));
          for (size_t i = 0; i < params[static_cast<size_t>(bucket)].count; ++i)
            put(values, bucket < 2 ? horingFloat32 : horingFloat64, i, rank + micro == 0 ? 4096 : 1);
          ASSERT_PARO(horingParoReduceGrads(paro, bucket));
        }
      ASSERT_PARO(horingParoSyncGrads(paro));
      const double expected = 4096 + ranks() * kMicroSteps - 1;
      double norm = 0;
      ASSERT_PARO(horingParoGetGradNorm(paro, &norm, nullptr));
      EXPECT_DOUBLE_EQ(norm, expected * std::sqrt(501 + 19 + 30));
      for (int bucket = 0; bucket < 3; ++bucket) {
        horingParoBucket_t info{};
        ASSERT_PARO(horingParoGetBucket(paro, bucket, &info));
        EXPECT_EQ(info.gradType, bucket < 2 ? horingFloat32 : horingFloat64);
        horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
        ASSERT_PARO(horingParoGetShard(paro, bucket, &shard));
        EXPECT_EQ(shard.gradType, info.gradType);
        for (size_t i = 0; i < shard.count; ++i)
          ASSERT_EQ(asDouble(shard.grads, shard.gradType, i), expected);
      }
      ASSERT_PARO(horingParoSyncParams(paro));
      EXPECT_PARO(horingParoDestroy(paro));
    });
}

const Sizes kLayouts[] = {{1}, {2, 2}, {3}, {3, 1}, {1, 1, 1}, {2, 1, 1}, {4, 3}, {4, 4}};
INSTANTIATE_TEST_SUITE_P(Layouts, Training, testing::ValuesIn(horing::test::firstUnderSanitizer(5, kLayouts)),
                         [](const auto& info) {
                           std::string name = "groups";
                           for (const int size : info.param) name += "_" + std::to_string(size);
                           return name;
                         });

TEST(TrainingOnMoreGradBuffers, EqualsOneRankAndOpensAsMany) {
  const std::vector<horingComm_t> comms = makeGroupsOf({2, 1});
  for (const int buffers : {3, 64})
    for (const auto strategy : {horingParoNNI, horingParoIII, horingParoGGG}) {
      Reference reference(kModel, Optimizer::kSgd);
      reference.step(3, 2, 0, 1);
      horingParoConfig_t config = configOf(strategy);
      config.gradBuffers = buffers;
      onClients(comms, config, kModel, [&](horingParo_t paro, Trainee& trainee) {
        trainee.initialise();
        std::vector<int> open;
        for (int bucket = 0; open.size() < 3; ++bucket)
          if (trainee.isTrainable(bucket)) {
            ASSERT_PARO(horingParoOpenGrads(paro, bucket));
            open.push_back(bucket);
          }
        for (const int bucket : open) ASSERT_PARO(horingParoDiscardGrads(paro, bucket));
        trainee.step(Optimizer::kSgd, 2, 0);
        trainee.expectParams(reference);
      });
      if (testing::Test::HasFailure()) break;
    }
  destroyAll(comms);
}

// Each bucket is longer than earlier ones, so that none can use the memory of another.
TEST(TrainingOnGrowingBuckets, KeepsNoMoreGatheredThanWasGatheredAtOnce) {
  const std::vector<horingComm_t> comms = makeGrid(1, 2);
  const std::vector<horingParoParam_t> params = {
      {1000, horingFloat32, 1}, {2000, horingFloat32, 1}, {3000, horingFloat32, 1}, {4000, horingFloat32, 1}};
  onEveryRank(2, [&](int rank) {
    horingParo_t paro = nullptr;
    const horingParoConfig_t config = configOf(horingParoGGG);
    ASSERT_PARO(
        horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, params.data(), params.size()));
    Trainee trainee(paro, rank, params);
    trainee.initialise();
    trainee.expectParams(Reference(params, Optimizer::kSgd));  // two at once
    horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
    EXPECT_PARO(horingParoGetUsage(paro, &usage));
    EXPECT_EQ(usage.gatheredBytes, 4u * (padded(3000, horingFloat32, 2) + padded(4000, horingFloat32, 2)));
    EXPECT_PARO(horingParoDestroy(paro));
  });
  destroyAll(comms);
}

// The gradients of one are open, without memory, when those of the other get theirs.
TEST(TrainingOnSmallModels, HaveBucketsWithNothingBesideOthers) {
  const std::vector<horingParoParam_t> params = {{0, horingFloat32, 1}, {4, horingFloat32, 1}};
  const std::vector<horingComm_t> comms = makeGroupsOf({2});
  onEveryRank(2, [&](int rank) {
    horingParo_t paro = nullptr;
    horingParoConfig_t config = configOf(horingParoNNN);
    const int units[] = {0, 1};
    config.units = units;
    ASSERT_PARO(
        horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, params.data(), params.size()));
    horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
    ASSERT_PARO(horingParoGetInfo(paro, &info));
    ASSERT_EQ(info.numBuckets, 2);
    for (const int bucket : {0, 1}) ASSERT_PARO(horingParoOpenGrads(paro, bucket));
    for (const int bucket : {0, 1}) ASSERT_PARO(horingParoReduceGrads(paro, bucket));
    ASSERT_PARO(horingParoSyncGrads(paro));
    ASSERT_PARO(horingParoSyncParams(paro));
    ASSERT_PARO(horingParoDestroy(paro));
  });
  destroyAll(comms);
}

// Nothing at all, nothing in it, nothing to train, less than an element for each rank.
TEST(TrainingOnSmallModels, EqualsOneRank) {
  const std::vector<std::vector<horingParoParam_t>> models = {
      {},
      {{0, horingFloat32, 1}, {0, horingBfloat16, 0}},
      {{5, horingFloat32, 0}, {1, horingBfloat16, 0}},
      {{1, horingBfloat16, 1}, {0, horingFloat64, 1}, {2, horingFloat64, 0}}};
  const horing::test::TemporaryFolder temporary;
  const std::string folder = temporary.path();
  const std::vector<horingComm_t> comms = makeGroupsOf({3, 1});
  for (const auto& params : models)
    for (int number = 0; number < horingParoNumStrategies; ++number) {
      SCOPED_TRACE(number);
      Reference reference(params, Optimizer::kSgd);
      reference.step(4, 2, 0, 1);
      onEveryRank(4, [&](int rank) {
        horingParo_t paro = nullptr;
        const horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
        ASSERT_PARO(
            horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, params.data(), params.size()));
        Trainee trainee(paro, rank, params);
        trainee.initialise();
        trainee.step(Optimizer::kSgd, 2, 0);
        ASSERT_PARO(horingParoSave(paro, folder.c_str(), 1));
        trainee.initialise();
        ASSERT_PARO(horingParoLoad(paro, folder.c_str(), nullptr));
        trainee.expectParams(reference);
        EXPECT_PARO(horingParoDestroy(paro));
      });
      if (testing::Test::HasFailure()) break;
    }
  destroyAll(comms);
}

// Group numbers that are not the order of ranks.
TEST(TrainingOnDealtRanks, EqualsOneRank) {
  for (const std::vector<const char*>& labels :
       {std::vector{"a", "b", "b", "a", "b", "a"}, std::vector{"a", "b", "a", "a", "b"}}) {
    const std::vector<horingComm_t> comms = makeGroups(labels);
    const int ranks = static_cast<int>(labels.size());
    for (int number = 0; number < horingParoNumStrategies; ++number) {
      Reference reference(kModel, Optimizer::kSgd);
      reference.step(ranks, 1, 0, 1);
      onEveryRank(ranks, [&](int rank) {
        horingParo_t paro = nullptr;
        const horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
        ASSERT_PARO(
            horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
        Trainee trainee(paro, rank, kModel);
        trainee.initialise();
        trainee.step(Optimizer::kSgd, 1, 0);
        trainee.expectParams(reference);
        EXPECT_PARO(horingParoDestroy(paro));
      });
      if (testing::Test::HasFailure()) break;
    }
    destroyAll(comms);
  }
}

}  // namespace
