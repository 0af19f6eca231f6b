// Groups of different sizes: what each rank keeps and sends.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "../sanitizer.h"
#include "job.h"

namespace {

int sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 0);
}

// A model of `params` elements of float32, of which only the optimizer's two values cost memory that is not counted as parameters.
horingParoModel_t modelOn(const Sizes& sizes, int group, int local, uint64_t params, int micro_steps = 1) {
  return {sizeof(horingParoModel_t),
          static_cast<int>(sizes.size()),
          0,
          params,
          params,
          micro_steps,
          4,
          8,
          0,
          sizes.data(),
          group,
          local,
          0,
          0};
}

horingParoEstimate_t costOn(const Sizes& sizes, int group, int local, horingParoStrategy_t strategy,
                            uint64_t params) {
  const horingParoModel_t model = modelOn(sizes, group, local, params);
  horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
  EXPECT_PARO(horingParoGetEstimate(strategy, &model, &cost));
  return cost;
}

// Bytes of the optimizer's values of each rank, with `strategy`, over what an n-th would be.
std::vector<double> statesOf(const Sizes& sizes, horingParoStrategy_t strategy) {
  constexpr uint64_t kParams = 1'000'000;
  std::vector<double> states;
  for (int group = 0; group < std::ssize(sizes); ++group)
    for (int local = 0; local < sizes[static_cast<size_t>(group)]; ++local) {
      // 4 bytes of parameters and of gradients each.
      const auto memory = static_cast<double>(costOn(sizes, group, local, strategy, kParams).memoryBytes);
      const double m = sizes[static_cast<size_t>(group)];
      const double kept = strategy == horingParoIIG ? 8.0 * kParams / m : 8.0 * kParams;
      states.push_back((memory - kept) / (8.0 * kParams) * sum(sizes));
    }
  return states;
}

void expectNear(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

TEST(UnevenGroups, ShareTheStateInsideTheSharesOfGroups) {
  for (const Sizes& sizes : {Sizes{4, 3}, Sizes{8, 7}, Sizes{2, 1, 1}, Sizes{8, 8, 7}, Sizes{8, 4}}) {
    const std::vector<double> equal(static_cast<size_t>(sum(sizes)), 1);
    expectNear(statesOf(sizes, horingParoIIG), equal);
    expectNear(statesOf(sizes, horingParoNNG), equal);
  }
  // Rank 0 takes the first quarter, rank 3 the next, rank 1 what its third has left, rank 2 its third.
  expectNear(statesOf({3, 1}, horingParoIIG), {1, 2.0 / 3, 4.0 / 3, 1});
  expectNear(statesOf({3, 1}, horingParoNNG), {1, 1, 1, 1});
}

// Adding up a group for each of its ranks took 39 s for one of them.
TEST(UnevenGroups, AreEstimatedInTimeHoweverManyTheRanks) {
  const Sizes one_large = {65534, 1};
  Sizes many_small(32768, 1);
  many_small[0] = 2;
  const auto begin = std::chrono::steady_clock::now();
  for (const Sizes& sizes : {one_large, many_small})
    for (int number = 0; number < horingParoNumStrategies; ++number)
      EXPECT_GT(costOn(sizes, 1, 0, static_cast<horingParoStrategy_t>(number), 1'000'000).memoryBytes, 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10) * horing::test::kSlowdown);
  // The rank alone in its group keeps all.
  EXPECT_EQ(costOn(one_large, 1, 0, horingParoIII, 1'000'000).memoryBytes, 16'000'000u);
}

// Every shape of up to three groups of up to nine ranks: all is kept, and no rank keeps more state than its share in its group.
TEST(UnevenGroups, KeepAllOfTheState) {
  for (int a = 1; a <= 9; ++a)
    for (int b = 1; b <= 9; ++b)
      for (int c = 0; c <= 9; ++c) {
        const Sizes sizes = c ? Sizes{a, b, c} : Sizes{a, b};
        const std::vector<double> states = statesOf(sizes, horingParoIIG);
        const double n = sum(sizes);
        ASSERT_NEAR(std::accumulate(states.begin(), states.end(), 0.0), n, 1e-4) << a << b << c;
        size_t rank = 0;
        for (const int size : sizes)
          for (int local = 0; local < size; ++local, ++rank)
            ASSERT_LE(states[rank], n / size + 1e-5) << a << b << c << ", rank " << rank;
        ASSERT_LE(std::ranges::max(states), 1.6) << a << b << c;
      }
}

// Over the links of groups goes what no algorithm avoids: 2D(M-1)/M for an all-reduce; D less the own share out of a group that reduces
// and scatters, into one that gathers.
TEST(UnevenGroups, SendBetweenGroupsWhatCannotBeAvoided) {
  constexpr uint64_t kParams = 840'000;
  constexpr double kBytes = 4.0 * kParams;
  for (const Sizes& sizes : {Sizes{4, 3}, Sizes{3, 1}, Sizes{2, 1, 1}, Sizes{5, 2, 1}, Sizes{8, 7}}) {
    const double groups = static_cast<double>(sizes.size());
    double gathered = 0;
    for (int group = 0; group < std::ssize(sizes); ++group) {
      double all_reduce = 0, scatter = 0, own = 0;
      for (int local = 0; local < sizes[static_cast<size_t>(group)]; ++local) {
        all_reduce += static_cast<double>(costOn(sizes, group, local, horingParoIII, kParams).slowBytes);
        const horingParoEstimate_t cost = costOn(sizes, group, local, horingParoIIG, kParams);
        // The last two operations of IIG.
        scatter += static_cast<double>(cost.operations[cost.numOperations - 2].slowBytes);
        gathered += static_cast<double>(cost.operations[cost.numOperations - 1].slowBytes);
        own += static_cast<double>(cost.memoryBytes) - 8.0 * kParams / sizes[static_cast<size_t>(group)];
      }
      EXPECT_NEAR(all_reduce / (2 * kBytes * (groups - 1) / groups), 1, 1e-4);
      EXPECT_NEAR(scatter / (kBytes - own / 2), 1, 1e-4);
    }
    EXPECT_NEAR(gathered / (kBytes * (groups - 1)), 1, 1e-4);
  }
}

class OnUnevenGroups : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override { comms_ = makeGroupsOf(GetParam()); }
  void TearDown() override { destroyAll(comms_); }
  int ranks() const { return sum(GetParam()); }
  void onClients(const horingParoConfig_t& config, const std::vector<horingParoParam_t>& params,
                 const std::function<void(horingParo_t, int)>& body) {
    onEveryRank(ranks(), [&](int rank) {
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()));
      body(paro, rank);
      ASSERT_PARO(horingParoDestroy(paro));
    });
  }

  std::vector<horingComm_t> comms_;
};

const std::vector<horingParoParam_t> kAllFloat64 = {
    {1003, horingFloat64, 1}, {7, horingFloat64, 1}, {129, horingFloat64, 0}, {501, horingFloat64, 1}};

TEST_P(OnUnevenGroups, AverageAsOneRankDoes) {
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
    config.average = 1;
    Reference reference(kAllFloat64, Optimizer::kAdam);
    for (int step = 0; step < 3; ++step) reference.step(ranks(), 2, step, 1.0 / ranks());
    onClients(config, kAllFloat64, [&](horingParo_t paro, int rank) {
      Trainee trainee(paro, rank, kAllFloat64);
      trainee.initialise();
      for (int step = 0; step < 3; ++step) ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kAdam, 2, step));
      trainee.expectParams(reference, 1e-10);
    });
    if (HasFailure()) return;
  }
}

// A rank may own none of the state, and add up none of what groups exchange. Gradients are in memory of the caller.
TEST_P(OnUnevenGroups, TrainModelsOfOneElement) {
  for (const horingDataType_t type : {horingFloat32, horingBfloat16})
    for (int number = 0; number < horingParoNumStrategies; ++number) {
      SCOPED_TRACE(number);
      const std::vector<horingParoParam_t> params = {{1, type, 1}};
      Reference reference(params, Optimizer::kSgd);
      for (const int step : {1, 3}) reference.step(ranks(), 1, step, 1);
      onClients(configOf(static_cast<horingParoStrategy_t>(number)), params,
                [&](horingParo_t paro, int rank) {
                  Trainee trainee(paro, rank, params);
                  trainee.initialise();
                  for (const int step : {1, 3})
                    ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kSgd, 1, step));
                  trainee.expectParams(reference);
                  trainee.expectMasters(reference);
                });
      if (HasFailure()) return;
    }
}

TEST_P(OnUnevenGroups, KeepTheMemoryThatIsStated) {
  constexpr uint64_t kParams = 50'021;
  const std::vector<horingParoParam_t> params = {{kParams, horingFloat32, 1}};
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    const auto strategy = static_cast<horingParoStrategy_t>(number);
    std::vector<uint64_t> kept(static_cast<size_t>(ranks())), stated_most(kept);
    onClients(configOf(strategy), params, [&](horingParo_t paro, int rank) {
      horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
      horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
      ASSERT_PARO(horingParoGetUsage(paro, &usage));
      ASSERT_PARO(horingParoGetInfo(paro, &info));
      EXPECT_EQ(usage.stateBytes, info.memoryBytes);
      kept[static_cast<size_t>(rank)] = usage.stateBytes;
      stated_most[static_cast<size_t>(rank)] = info.largestMemoryBytes;
    });
    size_t rank = 0;
    for (int group = 0; group < std::ssize(GetParam()); ++group)
      for (int local = 0; local < GetParam()[static_cast<size_t>(group)]; ++local, ++rank) {
        const horingParoEstimate_t cost = costOn(GetParam(), group, local, strategy, kParams);
        EXPECT_NEAR(static_cast<double>(kept[rank]) / static_cast<double>(cost.memoryBytes), 1, 0.02) << rank;
        EXPECT_EQ(stated_most[rank], std::ranges::max(kept)) << rank;
        EXPECT_NEAR(static_cast<double>(stated_most[rank]) / static_cast<double>(cost.largestMemoryBytes), 1,
                    0.02);
      }
    if (HasFailure()) return;
  }
}

TEST_P(OnUnevenGroups, HoldTheMemoryLimitOnEveryRank) {
  const std::vector<horingParoParam_t> params = {{50'021, horingFloat32, 1}};
  for (const auto strategy : {horingParoIII, horingParoIIG, horingParoGIG}) {
    horingParoConfig_t config = configOf(strategy);
    uint64_t most = 0;
    onClients(config, params, [&](horingParo_t paro, int rank) {
      horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
      EXPECT_PARO(horingParoGetInfo(paro, &info));
      if (rank == 0) most = info.largestMemoryBytes;
    });
    config.memoryLimit = most;
    onClients(config, params, [](horingParo_t, int) {});
    config.memoryLimit = most - 1;
    onEveryRank(ranks(), [&](int rank) {
      horingParo_t paro = nullptr;
      EXPECT_TRUE(paroRefuses(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()),
          horingInvalidArgument, "which keeps the most since groups differ in size, 1 bytes more than"));
    });
    if (HasFailure()) return;
  }
}

// Gradients without a short sum in any order.
TEST_P(OnUnevenGroups, GetTheSameNormAndParametersOnAllRanks) {
  const std::vector<horingParoParam_t> params = {{5003, horingFloat32, 1}, {77, horingFloat64, 1}};
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    SCOPED_TRACE(number);
    horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(number));
    config.average = 1;
    std::vector<double> norms(static_cast<size_t>(ranks()));
    std::vector<std::vector<float>> values(static_cast<size_t>(ranks()));
    onClients(config, params, [&](horingParo_t paro, int rank) {
      std::vector<float> floats(5003);
      std::vector<double> doubles(77);
      for (size_t i = 0; i < floats.size(); ++i)
        floats[i] = std::sin(static_cast<float>(i * 7 + static_cast<size_t>(rank)));
      for (size_t i = 0; i < doubles.size(); ++i)
        doubles[i] = std::cos(static_cast<double>(i * 3 + static_cast<size_t>(rank)));
      for (int bucket = 0; bucket < 2; ++bucket) {
        const void* const grads[] = {bucket == 0 ? static_cast<const void*>(floats.data()) : doubles.data()};
        ASSERT_PARO(horingParoReduceGradsOf(paro, bucket, grads, 1));
      }
      ASSERT_PARO(horingParoSyncGrads(paro));
      ASSERT_PARO(horingParoGetGradNorm(paro, &norms[static_cast<size_t>(rank)], nullptr));
      Trainee(paro, rank, params).updateShards(Optimizer::kSgd);
      ASSERT_PARO(horingParoSyncParams(paro));
      ASSERT_PARO(horingParoGatherParams(paro, 0));
      const void* gathered = nullptr;
      ASSERT_PARO(horingParoGetParam(paro, 0, &gathered));
      values[static_cast<size_t>(rank)].resize(5003);
      std::memcpy(values[static_cast<size_t>(rank)].data(), gathered, 5003 * sizeof(float));
      ASSERT_PARO(horingParoReleaseParams(paro, 0));
    });
    for (int rank = 1; rank < ranks(); ++rank) {
      EXPECT_EQ(norms[static_cast<size_t>(rank)], norms[0]) << rank;
      EXPECT_TRUE(values[static_cast<size_t>(rank)] == values[0]) << rank;
    }
    if (HasFailure()) return;
  }
}

TEST_P(OnUnevenGroups, AgreeOnTheStrategyThatIsChosen) {
  std::vector<horingParoStrategy_t> chosen(static_cast<size_t>(ranks()));
  onClients(configOf(horingParoAuto), kModel, [&](horingParo_t paro, int rank) {
    horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
    EXPECT_PARO(horingParoGetInfo(paro, &info));
    chosen[static_cast<size_t>(rank)] = info.strategy;
    Trainee trainee(paro, rank, kModel);
    trainee.initialise();
    trainee.step(Optimizer::kSgd, 1, 0);
    Reference reference(kModel, Optimizer::kSgd);
    reference.step(ranks(), 1, 0, 1);
    trainee.expectParams(reference);
  });
  for (const horingParoStrategy_t each : chosen) EXPECT_EQ(each, chosen[0]);
}

INSTANTIATE_TEST_SUITE_P(Layouts, OnUnevenGroups,
                         testing::Values(Sizes{4, 3}, Sizes{3, 1}, Sizes{2, 1, 1}, Sizes{3, 2, 1}),
                         [](const auto& info) {
                           std::string name = "groups";
                           for (const int size : info.param) name += "_" + std::to_string(size);
                           return name;
                         });

}  // namespace
