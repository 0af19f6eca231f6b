// The table of strategies and their costs, against the formulas.
#include <climits>
#include <cstring>

#include "job.h"

namespace {

// In units of the paper's table, with a = (m-1)/m, b = (M-1)/M: slow bytes = b * (grads + s * grads_s) * X + 2 s b
// * params * Y, where X and Y are the wire bytes of trainable, and of twice all, elements over m; fast bytes = a *
// ((fixed + s * each) * T + 2 s * gather * P).
struct Formula {
  const char* name;
  double slow_fixed, slow_each, slow_gather;  // of X, s*X, 2s*Y/2
  double fast_fixed, fast_each, fast_gather;
};
constexpr Formula kFormulas[] = {
    {"NNN", 2, 0, 0, 2, 0, 0}, {"NNI", 2, 0, 0, 2, 0, 0}, {"NII", 2, 0, 0, 1, 1, 0},
    {"INI", 2, 0, 0, 1, 0, 1}, {"III", 2, 0, 0, 0, 1, 1}, {"NNG", 2, 0, 0, 2, 0, 0},
    {"NIG", 2, 0, 0, 1, 1, 0}, {"NGG", 1, 1, 0, 1, 1, 0}, {"ING", 2, 0, 0, 1, 0, 1},
    {"IIG", 2, 0, 0, 0, 1, 1}, {"IGG", 1, 1, 0, 0, 1, 1}, {"GNG", 1, 0, 1, 1, 0, 1},
    {"GIG", 1, 0, 1, 0, 1, 1}, {"GGG", 0, 1, 1, 0, 1, 1}};

double divisor(char partition, int groups, int members) {
  return partition == 'N' ? 1 : partition == 'I' ? members : groups * members;
}

TEST(ParoStrategies, AreFourteenAndFoundByTheirNames) {
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    const auto strategy = static_cast<horingParoStrategy_t>(number);
    const horingParoStrategyInfo_t* info = nullptr;
    ASSERT_PARO(horingParoGetStrategy(strategy, &info));
    EXPECT_STREQ(info->name, kFormulas[number].name);
    constexpr char kLetters[] = "NIG";
    EXPECT_EQ(info->name[0], kLetters[info->params]);
    EXPECT_EQ(info->name[1], kLetters[info->grads]);
    EXPECT_EQ(info->name[2], kLetters[info->state]);
    horingParoStrategy_t found = horingParoAuto;
    ASSERT_PARO(horingParoFindStrategy(info->name, &found));
    EXPECT_EQ(found, strategy);
  }
  horingParoStrategy_t found = horingParoNNN;
  ASSERT_PARO(horingParoFindStrategy("zero-3", &found));
  EXPECT_EQ(found, horingParoGGG);
  ASSERT_PARO(horingParoFindStrategy("Auto", &found));
  EXPECT_EQ(found, horingParoAuto);
  EXPECT_TRUE(paroRefuses(horingParoFindStrategy("GGN", &found), horingInvalidArgument, "IIG, "));
  EXPECT_TRUE(
      paroRefuses(horingParoFindStrategy("", &found), horingInvalidArgument, "there is no strategy ''"));
  const horingParoStrategyInfo_t* info = nullptr;
  EXPECT_TRUE(paroRefuses(horingParoGetStrategy(static_cast<horingParoStrategy_t>(14), &info),
                          horingInvalidArgument, "strategy is 14"));
}

TEST(ParoStrategies, CostWhatTheFormulasSay) {
  for (const auto& [groups, members] : {std::pair(2, 4), std::pair(4, 8), std::pair(1, 4), std::pair(4, 1)})
    for (const int s : {1, 4, 10})
      for (const uint64_t trainable : {uint64_t{1} << 30, uint64_t{1} << 26}) {
        const horingParoModel_t model{sizeof(horingParoModel_t),
                                      groups,
                                      members,
                                      uint64_t{1} << 30,
                                      trainable,
                                      s,
                                      2,
                                      12,
                                      0,
                                      nullptr,
                                      0,
                                      0,
                                      0,
                                      0};
        const double m = members, a = (m - 1) / m, b = (groups - 1.0) / groups;
        const double all_bytes = 2.0 * static_cast<double>(model.params),
                     bytes = 2.0 * static_cast<double>(trainable);
        for (int number = 0; number < horingParoNumStrategies; ++number) {
          const Formula& formula = kFormulas[number];
          horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
          ASSERT_PARO(horingParoGetEstimate(static_cast<horingParoStrategy_t>(number), &model, &cost));
          const double memory = all_bytes / divisor(formula.name[0], groups, members) +
                                bytes / divisor(formula.name[1], groups, members) +
                                6 * bytes / divisor(formula.name[2], groups, members);
          EXPECT_NEAR(static_cast<double>(cost.memoryBytes), memory, 1) << formula.name;
          const double slow = b / m *
                              ((formula.slow_fixed + s * formula.slow_each) * bytes +
                               2 * s * formula.slow_gather * all_bytes);
          EXPECT_NEAR(static_cast<double>(cost.slowBytes), slow, 1)
              << formula.name << " on " << groups << "x" << members;
          const double fast = a * ((formula.fast_fixed + s * formula.fast_each) * bytes +
                                   2 * s * formula.fast_gather * all_bytes);
          EXPECT_NEAR(static_cast<double>(cost.fastBytes), fast, 1)
              << formula.name << " on " << groups << "x" << members;
        }
      }
}

TEST(ParoStrategies, NameTheirCollectives) {
  const horingParoModel_t model{
      sizeof(horingParoModel_t), 2, 4, 8000, 8000, 3, 2, 12, 0, nullptr, 0, 0, 0, 0};
  horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
  ASSERT_PARO(horingParoGetEstimate(horingParoIIG, &model, &cost));
  ASSERT_EQ(cost.numOperations, 4);
  const struct {
    horingParoCollective_t collective;
    horingParoScope_t scope;
    int times;
    uint64_t bytes, slow, fast;
  } expected[] = {{horingParoAllGather, horingParoGroup, 6, 16000, 0, 12000},
                  {horingParoReduceScatter, horingParoGroup, 3, 16000, 0, 12000},
                  {horingParoReduceScatter, horingParoRail, 1, 4000, 2000, 0},
                  {horingParoAllGather, horingParoRail, 1, 4000, 2000, 0}};
  for (int i = 0; i < cost.numOperations; ++i) {
    EXPECT_EQ(cost.operations[i].phase, i);
    EXPECT_EQ(cost.operations[i].collective, expected[i].collective) << i;
    EXPECT_EQ(cost.operations[i].scope, expected[i].scope) << i;
    EXPECT_EQ(cost.operations[i].times, expected[i].times) << i;
    EXPECT_EQ(cost.operations[i].bytes, expected[i].bytes) << i;
    EXPECT_EQ(cost.operations[i].slowBytes, expected[i].slow) << i;
    EXPECT_EQ(cost.operations[i].fastBytes, expected[i].fast) << i;
  }
}

TEST(ParoStrategies, TakeTheTimeOfTheirCollectives) {
  const horingParoModel_t model{
      sizeof(horingParoModel_t), 2, 4, 8000, 8000, 3, 2, 12, 0, nullptr, 0, 0, 0, 0};
  horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
  ASSERT_PARO(horingParoGetEstimate(horingParoIIG, &model, &cost));
  horingParoRates_t rates{};
  rates.of[horingParoAllGather][horingParoGroup] = {1e-3, 1e-6};
  rates.of[horingParoReduceScatter][horingParoGroup] = {2e-3, 2e-6};
  rates.of[horingParoReduceScatter][horingParoRail] = {3e-3, 3e-6};
  rates.of[horingParoAllGather][horingParoRail] = {4e-3, 4e-6};
  rates.of[horingParoAllReduce][horingParoGlobal] = {5, 5};  // it has none
  double seconds = 0;
  ASSERT_PARO(horingParoGetSeconds(&cost, 2, &rates, &seconds));
  EXPECT_DOUBLE_EQ(seconds, 6 * (2 * 1e-3 + 16000 * 1e-6) + 3 * (2 * 2e-3 + 16000 * 2e-6) +
                                (2 * 3e-3 + 4000 * 3e-6) + (2 * 4e-3 + 4000 * 4e-6));
  EXPECT_TRUE(paroRefuses(horingParoGetSeconds(&cost, 0, &rates, &seconds), horingInvalidArgument,
                          "on 0 vectors: expected an estimate"));
  cost.numOperations = HORING_PARO_MAX_OPERATIONS + 1;
  EXPECT_TRUE(paroRefuses(horingParoGetSeconds(&cost, 1, &rates, &seconds), horingInvalidArgument,
                          "6 operations on 1 vectors"));
  EXPECT_TRUE(
      paroRefuses(horingParoGetSeconds(&cost, 1, nullptr, &seconds), horingInvalidArgument, "rates is NULL"));
}

// What is measured is the same on all ranks, of the scopes that there are.
TEST(ParoStrategies, AreMeasured) {
  for (const Sizes& sizes : {Sizes{2, 2}, Sizes{2, 1}}) {
    const std::vector<horingComm_t> comms = makeGroupsOf(sizes);
    std::vector<horingParoRates_t> all(comms.size());
    onEveryRank(static_cast<int>(comms.size()), [&](int rank) {
      const auto mine = static_cast<size_t>(rank);
      ASSERT_PARO(horingParoMeasure(comms[mine], 100000, &all[mine]));
      EXPECT_TRUE(
          paroRefuses(horingParoMeasure(comms[mine], 1, nullptr), horingInvalidArgument, "rates is NULL"));
    });
    for (const horingParoRates_t& rates : all) EXPECT_EQ(std::memcmp(&rates, &all[0], sizeof rates), 0);
    for (int collective = 0; collective < 3; ++collective)
      for (const int scope : {horingParoGroup, horingParoRail, horingParoGlobal}) {
        const horingParoRate_t& rate = all[0].of[collective][scope];
        EXPECT_GT(rate.latencySeconds + rate.secondsPerByte, 0) << collective << " " << scope;
        EXPECT_LT(rate.latencySeconds, 10);
      }
    destroyAll(comms);
  }
}

TEST(ParoStrategies, CostTheLargestNumberWhereThatIsTooSmall) {
  const uint64_t params = uint64_t{1} << 51;
  const horingParoModel_t model{
      sizeof(horingParoModel_t), 64, 8, params, params, 1 << 20, 4, 8, 0, nullptr, 0, 0, 0, 0};
  horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
  ASSERT_PARO(horingParoGetEstimate(horingParoGGG, &model, &cost));
  EXPECT_EQ(cost.fastBytes, UINT64_MAX);
  EXPECT_EQ(cost.operations[0].times, 1 << 21);
}

TEST(ParoStrategies, RefuseModelsThatAreNone) {
  const horingParoModel_t good{sizeof(horingParoModel_t), 2, 4, 8000, 8000, 3, 2, 12, 0, nullptr, 0, 0, 0, 0};
  horingParoEstimate_t cost = HORING_PARO_ESTIMATE_INITIALIZER;
  const auto refuses = [&](auto change, const char* named) {
    horingParoModel_t model = good;
    change(model);
    return paroRefuses(horingParoGetEstimate(horingParoGGG, &model, &cost), horingInvalidArgument, named);
  };
  EXPECT_TRUE(refuses([](auto& model) { model.groups = 0; }, "0 groups"));
  EXPECT_TRUE(refuses([](auto& model) { model.ranksPerGroup = -1; }, "of -1 ranks"));
  EXPECT_TRUE(refuses([](auto& model) { model.microSteps = 0; }, "0 micro-steps"));
  EXPECT_TRUE(refuses([](auto& model) { model.microSteps = INT_MAX; }, "2147483647 micro-steps"));
  EXPECT_TRUE(refuses([](auto& model) { model.stateBytes = INT_MAX; }, "2147483647 of state"));
  EXPECT_TRUE(refuses([](auto& model) { model.wireBytes = INT_MAX; }, "2147483647 bytes on the wire"));
  static const int kNone[] = {4, 0}, kMany[] = {65535, 1}, kGood[] = {4, 3};
  EXPECT_TRUE(refuses([](auto& model) { model.groupSizes = kNone; }, "groupSizes[1] is 0"));
  EXPECT_TRUE(refuses([](auto& model) { model.groupSizes = kMany; }, "65536 ranks in groupSizes"));
  EXPECT_TRUE(refuses(
      [](auto& model) {
        model.isBucket = 1;
        model.ranksPerGroup = 32768;
      },
      "a bucket of 65536 ranks: expected at most 65535"));
  EXPECT_TRUE(refuses(
      [](auto& model) {
        model.isBucket = 1;
        model.trainable = 7999;
      },
      "7999 of 8000 parameters of a bucket are trainable: expected all or none"));
  EXPECT_TRUE(refuses([](auto& model) { model.groupSizes = kGood, model.group = 2; }, "in group 2"));
  EXPECT_TRUE(refuses([](auto& model) { model.groupSizes = kGood, model.localIndex = 4; }, "no rank 4"));
  EXPECT_TRUE(refuses([](auto& model) { model.trainable = 8001; }, "8001 of 8000"));
  EXPECT_TRUE(refuses([](auto& model) { model.params = UINT64_MAX; }, "2^52"));
  EXPECT_TRUE(paroRefuses(horingParoGetEstimate(horingParoAuto, &good, &cost), horingInvalidArgument,
                          "strategy is -1"));
  EXPECT_TRUE(paroRefuses(horingParoGetEstimate(horingParoGGG, nullptr, &cost), horingInvalidArgument,
                          "model is NULL"));
}

}  // namespace
