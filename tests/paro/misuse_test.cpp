// Refused calls and their error texts; a refused call changes nothing.
#include <barrier>
#include <cstddef>
#include <cstring>
#include <string>

#include "job.h"

namespace {

class Misuse : public testing::Test {
 protected:
  void SetUp() override { comms_ = makeGrid(2, 2); }
  void TearDown() override { destroyAll(comms_); }

  // Creates on every rank, with the usual arguments changed by prepare(rank, config, params); expects the refusal on all of them.
  template <typename Prepare>
  void expectRefused(Prepare prepare, horingResult_t result, const char* named) {
    onEveryRank(kRanks, [&](int rank) {
      horingParoConfig_t config = configOf(horingParoIIG);
      std::vector<horingParoParam_t> params = kModel;
      prepare(rank, config, params);
      horingParo_t paro = nullptr;
      EXPECT_TRUE(paroRefuses(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()),
          result, named));
      EXPECT_EQ(paro, nullptr);
    });
  }

  static constexpr int kRanks = 4;
  std::vector<horingComm_t> comms_;
};

TEST_F(Misuse, OfOneRankIsHeardOfOnAll) {
  expectRefused(
      [](int rank, auto& config, auto&) {
        if (rank == 2) config.strategy = static_cast<horingParoStrategy_t>(99);
      },
      horingInvalidArgument, "rank 2: strategy is 99");
  expectRefused(
      [](int rank, auto& config, auto&) {
        if (rank == 3) config.size = 3;
      },
      horingInvalidArgument, "rank 3: config.size is 3: begin with HORING_PARO_CONFIG_INITIALIZER");
  expectRefused(
      [](int rank, auto&, auto& params) {
        if (rank == 1) params[4].type = horingInt8;
      },
      horingInvalidArgument, "rank 1: parameter 4 has type 0");
  expectRefused([](int, auto& config, auto&) { config.stateValues = 5; }, horingInvalidArgument,
                "stateValues is 5");
  expectRefused([](int, auto& config, auto&) { config.microSteps = 0; }, horingInvalidArgument,
                "microSteps is 0");
  for (const int wrong : {-1, 1, 65})
    expectRefused([=](int, auto& config, auto&) { config.gradBuffers = wrong; }, horingInvalidArgument,
                  "expected 2 to 64, or 0 for 2");
  expectRefused([](int, auto&, auto& params) { params[0].count = SIZE_MAX; }, horingInvalidArgument,
                "parameter 0 has");
}

TEST_F(Misuse, RanksThatDifferAreNamedWithTheFirstDifference) {
  expectRefused(
      [](int rank, auto& config, auto&) {
        if (rank == 1) config.bucketBytes = 4000;
      },
      horingInvalidUsage, "rank 1: bucketBytes is 4000 here and 2000 on rank 0");
  expectRefused(
      [](int rank, auto&, auto& params) {
        if (rank == 3) params.pop_back();
      },
      horingInvalidUsage, "rank 3: the number of parameters is 9 here and 10 on rank 0");
  expectRefused(
      [](int rank, auto&, auto& params) {
        if (rank == 2) params[5].count = 20;
      },
      horingInvalidUsage,
      "rank 2: parameter 5 has 20 float16 elements, trainable here, and 19 float16 elements, trainable on "
      "rank 0");
  expectRefused(
      [](int rank, auto&, auto& params) {
        if (rank == 0) params[1].trainable = 0;
      },
      horingInvalidUsage, "rank 1: parameter 1 has 7 bfloat16 elements, trainable here");
}

TEST_F(Misuse, AStrategyThatDoesNotFitIsToldByHowMuch) {
  const auto limit_to = [](uint64_t bytes, horingParoStrategy_t strategy) {
    return [=](int, horingParoConfig_t& config, std::vector<horingParoParam_t>& params) {
      config.memoryLimit = bytes;
      config.strategy = strategy;
      config.bucketBytes = 0;
      params = {{size_t{1} << 40, horingBfloat16, 1}};  // 16 bytes of each: 16384 GiB
    };
  };
  const uint64_t gibibyte = uint64_t{1} << 30;
  expectRefused(
      limit_to(10000 * gibibyte, horingParoNNN), horingInvalidArgument,
      "NNN needs 16384.000 GiB on each rank, 6384.000 GiB more than the memoryLimit of 10000.000 GiB");
  // The least of all.
  expectRefused(limit_to(1000 * gibibyte, horingParoAuto), horingInvalidArgument,
                "GGG needs 4096.000 GiB on each rank, 3096.000 GiB more");
  expectRefused([](int, auto& config, auto&) { config.memoryLimit = 10; }, horingInvalidArgument,
                "bytes more than the memoryLimit of 10 bytes");
}

// With so many micro-steps any collective in each of them takes longer than all of what comes once.
TEST_F(Misuse, AutoTakesTheFastestThatFits) {
  const struct {
    uint64_t limit;
    const char* expected;  // the letters of parameters and gradients; * is any
  } cases[] = {{0, "NN*"}, {7168, "NN*"}, {7167, "***"}, {5119, "***"}, {4096, "GG*"}};
  const std::vector<horingParoParam_t> params = {{1024, horingBfloat16, 1}};
  for (const auto& each : cases)
    onEveryRank(kRanks, [&](int rank) {
      horingParoConfig_t config = configOf(horingParoAuto);
      config.memoryLimit = each.limit;
      config.microSteps = 1000;
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()));
      horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
      EXPECT_PARO(horingParoGetInfo(paro, &info));
      const horingParoStrategyInfo_t* row = nullptr;
      ASSERT_PARO(horingParoGetStrategy(info.strategy, &row));
      for (const int letter : {0, 1})
        EXPECT_TRUE(each.expected[letter] == '*' || each.expected[letter] == row->name[letter])
            << row->name << ", limit " << each.limit;
      horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
      EXPECT_PARO(horingParoGetUsage(paro, &usage));
      EXPECT_LE(usage.stateBytes, each.limit ? each.limit : 16384);
      EXPECT_PARO(horingParoDestroy(paro));
    });
}

TEST_F(Misuse, CallsOutOfOrderNameWhatWasExpected) {
  // Buckets by the order in which their first parameters come: float32, bfloat16, float32 again, ...
  for (const auto strategy : {horingParoNNN, horingParoIIG, horingParoGGG})
    onEveryRank(kRanks, [&](int rank) {
      const horingParoConfig_t config = configOf(strategy);
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
      Trainee trainee(paro, rank, kModel);
      trainee.initialise();
      const auto refuses = [](horingResult_t result, const char* named) {
        return paroRefuses(result, horingInvalidUsage, named);
      };
      const void* values = nullptr;
      void* grads = nullptr;
      horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
      EXPECT_TRUE(refuses(horingParoGetParam(paro, 0, &values), "expected horingParoGatherParams"));
      EXPECT_TRUE(refuses(horingParoReleaseParams(paro, 0), "expected horingParoGatherParams"));
      EXPECT_TRUE(refuses(horingParoGetGrad(paro, 0, &grads), "expected horingParoOpenGrads"));
      EXPECT_TRUE(refuses(horingParoReduceGrads(paro, 0), "expected horingParoOpenGrads"));
      EXPECT_TRUE(refuses(horingParoDiscardGrads(paro, 0), "expected horingParoOpenGrads"));
      EXPECT_TRUE(
          refuses(horingParoSyncGrads(paro), "expected horingParoReduceGrads of each trainable bucket"));
      EXPECT_TRUE(refuses(horingParoSyncParams(paro), "expected horingParoSyncGrads"));
      EXPECT_TRUE(refuses(horingParoGetShard(paro, 0, &shard), "expected horingParoSyncGrads"));
      EXPECT_TRUE(refuses(horingParoGetGradNorm(paro, nullptr, nullptr), "expected horingParoSyncGrads"));

      ASSERT_PARO(horingParoGatherParams(paro, 0));
      EXPECT_TRUE(refuses(horingParoGatherParams(paro, 0),
                          "bucket 0 is gathered already: expected horingParoReleaseParams"));
      EXPECT_TRUE(refuses(horingParoSetParam(paro, 0, values, 1003, horingFloat32),
                          "horingParoReleaseParams before"));
      ASSERT_PARO(horingParoReleaseParams(paro, 0));

      const void* none[] = {nullptr, nullptr};
      EXPECT_TRUE(
          paroRefuses(horingParoReduceGradsOf(paro, 0, nullptr, 1), horingInvalidArgument, "grads is NULL"));
      EXPECT_TRUE(paroRefuses(horingParoReduceGradsOf(paro, 0, none, 2), horingInvalidArgument,
                              "numGrads is 2, and bucket 0 has 1 parameters"));
      ASSERT_PARO(horingParoOpenGrads(paro, 0));
      EXPECT_TRUE(refuses(horingParoReduceGradsOf(paro, 0, none, 1), "expected horingParoReduceGrads"));
      EXPECT_TRUE(refuses(horingParoOpenGrads(paro, 0), "expected horingParoReduceGrads"));
      EXPECT_TRUE(
          refuses(horingParoSetParam(paro, 0, values, 1003, horingFloat32), "expected horingParoSyncParams"));
      EXPECT_TRUE(
          refuses(horingParoSyncGrads(paro), "expected horingParoReduceGrads before horingParoSyncGrads"));
      ASSERT_PARO(horingParoOpenGrads(paro, 1));
      EXPECT_TRUE(refuses(
          horingParoOpenGrads(paro, 2),
          "would be one more with open gradients than the 2 buffers: expected horingParoReduceGrads"));
      // A discarded client frees its memory completely.
      ASSERT_PARO(horingParoGetGrad(paro, 1, &grads));
      put(grads, horingBfloat16, 0, 1000);
      ASSERT_PARO(horingParoDiscardGrads(paro, 1));
      ASSERT_PARO(horingParoOpenGrads(paro, 2));
      ASSERT_PARO(horingParoDiscardGrads(paro, 2));
      ASSERT_PARO(horingParoOpenGrads(paro, 1));
      ASSERT_PARO(horingParoReduceGrads(paro, 0));
      ASSERT_PARO(horingParoReduceGrads(paro, 1));
      EXPECT_TRUE(refuses(horingParoSyncGrads(paro),
                          "was reduced 0 times since the last step, and the first one 1 times"));
      for (int bucket = 2; bucket < 10; ++bucket) {
        horingParoBucket_t info{};
        if (horingParoGetBucket(paro, bucket, &info) != horingSuccess) break;
        if (!info.trainable) {
          EXPECT_TRUE(refuses(horingParoOpenGrads(paro, bucket), "is frozen"));
          EXPECT_TRUE(refuses(horingParoGetShard(paro, bucket, &shard), "is frozen"));
          continue;
        }
        ASSERT_PARO(horingParoOpenGrads(paro, bucket));
        ASSERT_PARO(horingParoReduceGrads(paro, bucket));
      }
      ASSERT_PARO(horingParoGatherParams(paro, 0));
      ASSERT_PARO(horingParoSyncGrads(paro));
      EXPECT_TRUE(refuses(horingParoSyncGrads(paro), "expected horingParoSyncParams"));
      EXPECT_TRUE(
          refuses(horingParoGatherParams(paro, 1), "horingParoSyncParams before horingParoGatherParams"));
      EXPECT_TRUE(refuses(horingParoOpenGrads(paro, 1), "horingParoSyncParams before horingParoOpenGrads"));
      EXPECT_TRUE(refuses(horingParoReduceGradsOf(paro, 0, none, 1),
                          "horingParoSyncParams before horingParoOpenGrads"));
      EXPECT_TRUE(refuses(horingParoSyncParams(paro), "horingParoReleaseParams before horingParoSyncParams"));
      ASSERT_PARO(horingParoReleaseParams(paro, 0));
      ASSERT_PARO(horingParoSyncParams(paro));

      // All gradients were 0, so nothing of this has left a trace.
      trainee.expectParams(Reference(kModel, Optimizer::kSgd));
      EXPECT_PARO(horingParoDestroy(paro));
    });
}

TEST_F(Misuse, ArgumentsThatAreWrongAreNamed) {
  onEveryRank(kRanks, [&](int rank) {
    const horingParoConfig_t config = configOf(horingParoGGG);
    horingParo_t paro = nullptr;
    ASSERT_PARO(
        horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
    const auto refuses = [](horingResult_t result, const char* named) {
      return paroRefuses(result, horingInvalidArgument, named);
    };
    const float value = 1;
    horingParoPlace_t place{};
    EXPECT_TRUE(refuses(horingParoGatherParams(paro, 99), "bucket 99 does not exist"));
    EXPECT_TRUE(refuses(horingParoGatherParams(paro, -1), "bucket -1 does not exist"));
    EXPECT_TRUE(refuses(horingParoGetPlace(paro, 10, &place), "parameter 10 does not exist: there are 10"));
    EXPECT_TRUE(refuses(horingParoSetParam(paro, 0, &value, 1003, horingFloat64),
                        "type is float64, and parameter 0 has float32"));
    EXPECT_TRUE(refuses(horingParoSetParam(paro, 0, nullptr, 1003, horingFloat32), "values is NULL"));
    EXPECT_TRUE(refuses(horingParoSetParam(paro, 0, &value, 1, horingFloat32),
                        "count is 1, and parameter 0 has 1003 elements: expected all"));
    EXPECT_TRUE(refuses(horingParoGetInfo(paro, nullptr), "info is NULL"));
    EXPECT_TRUE(refuses(horingParoGetInfo(nullptr, nullptr), "paro is NULL"));
    EXPECT_PARO(horingParoDestroy(paro));
  });
  horingParo_t paro = nullptr;
  EXPECT_TRUE(paroRefuses(horingParoCreate(&paro, nullptr, nullptr, nullptr, 0), horingInvalidArgument,
                          "comm is NULL"));
  EXPECT_TRUE(paroRefuses(horingParoDestroy(nullptr), horingInvalidArgument, "paro is NULL"));
}

// In a group's communicator, too, which the client has made before.
TEST_F(Misuse, DeadlinesAreThoseOfTheCommunicatorAtTheCall) {
  for (const auto strategy : {horingParoIII, horingParoGGG}) {
    std::barrier all_here(kRanks);
    onEveryRank(kRanks, [&](int rank) {
      const horingComm_t comm = comms_[static_cast<size_t>(rank)];
      const horingParoConfig_t config = configOf(strategy);
      horingParo_t paro = nullptr;
      ASSERT_PARO(horingParoCreate(&paro, comm, &config, kModel.data(), kModel.size()));
      ASSERT_HORING(horingCommSetTimeout(comm, 300));
      if (rank == 0) {
        const auto begun = std::chrono::steady_clock::now();
        const void* values = nullptr;
        ASSERT_PARO(horingParoGatherParams(paro, 0));
        EXPECT_TRUE(
            paroRefuses(horingParoGetParam(paro, 0, &values), horingTimeout, "rank 0 has waited for 300 ms"));
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
      }
      all_here.arrive_and_wait();
      EXPECT_PARO(horingParoDestroy(paro));
    });
    destroyAll(comms_);
    comms_ = makeGrid(2, 2);
  }
}

// Of older and newer headers.
TEST_F(Misuse, AConfigurationOfAnotherSizeIsTakenIfItsFieldsAreKnown) {
  struct Newer {
    horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
    uint64_t additional = 0;
  };
  onEveryRank(kRanks, [&](int rank) {
    const horingComm_t comm = comms_[static_cast<size_t>(rank)];
    const auto create = [&](const horingParoConfig_t& config, horingParo_t* paro) {
      return horingParoCreate(paro, comm, &config, kModel.data(), kModel.size());
    };
    horingParo_t paro = nullptr;
    horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
    Newer newer;
    newer.config.strategy = horingParoIIG;
    newer.config.size = sizeof newer;
    ASSERT_PARO(create(newer.config, &paro));
    ASSERT_PARO(horingParoGetInfo(paro, &info));
    EXPECT_EQ(info.strategy, horingParoIIG);
    ASSERT_PARO(horingParoDestroy(paro));

    newer.additional = 7;
    EXPECT_TRUE(paroRefuses(create(newer.config, &paro), horingInvalidArgument,
                            "this library knows only the fields"));

    horingParoConfig_t older = newer.config;
    older.size = offsetof(horingParoConfig_t, units);
    older.gradsInFloat32 = 1;  // not its own
    older.names = reinterpret_cast<const char* const*>(&older);
    ASSERT_PARO(create(older, &paro));
    ASSERT_PARO(horingParoGetInfo(paro, &info));
    EXPECT_EQ(info.strategy, horingParoIIG);
    for (int bucket = 0; bucket < info.numBuckets; ++bucket) {
      horingParoBucket_t kind{};
      ASSERT_PARO(horingParoGetBucket(paro, bucket, &kind));
      EXPECT_EQ(kind.gradType, kind.type);
    }
    ASSERT_PARO(horingParoDestroy(paro));
  });
}

// Each field that was added later: what follows it in memory is not the configuration's.
TEST_F(Misuse, AConfigurationMayEndBeforeAnyLaterField) {
  const size_t ends[] = {offsetof(horingParoConfig_t, names), offsetof(horingParoConfig_t, gatherType),
                         offsetof(horingParoConfig_t, memory), sizeof(horingParoConfig_t)};
  onEveryRank(kRanks, [&](int rank) {
    for (const size_t end : ends) {
      const std::vector<std::string> texts = [] {
        std::vector<std::string> made;
        for (size_t i = 0; i < kModel.size(); ++i) made.push_back("p" + std::to_string(i));
        return made;
      }();
      std::vector<const char*> names;
      for (const std::string& text : texts) names.push_back(text.c_str());
      horingParoConfig_t config = configOf(horingParoIIG);
      config.names = names.data();
      config.size = end;
      std::memset(reinterpret_cast<char*>(&config) + end, 0x5a, sizeof config - end);
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
      const bool has_names = end > offsetof(horingParoConfig_t, names);
      EXPECT_TRUE(paroRefuses(horingParoSetParam(paro, 0, nullptr, 1, horingFloat32), horingInvalidArgument,
                              has_names ? "parameter 0 (p0)" : "parameter 0 has"));
      ASSERT_PARO(horingParoDestroy(paro));
    }
  });
}

TEST_F(Misuse, WhatWasGivenMayBeFreedAndChangedAtOnce) {
  Reference reference(kModel, Optimizer::kSgd);
  reference.step(kRanks, 1, 0, 1);
  onEveryRank(kRanks, [&](int rank) {
    horingParo_t paro = nullptr;
    {
      horingParoConfig_t config = configOf(horingParoNII);
      std::vector<horingParoParam_t> params = kModel;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()));
      config = {};
      for (horingParoParam_t& param : params) param = {1, horingFloat64, 0};
    }
    Trainee trainee(paro, rank, kModel);
    trainee.initialise();  // each value from a buffer that is gone afterwards
    trainee.step(Optimizer::kSgd, 1, 0);
    trainee.expectParams(reference);
    EXPECT_PARO(horingParoDestroy(paro));
  });
}

TEST_F(Misuse, ACommunicatorThatWasDestroyedIsAnErrorThatSticks) {
  onEveryRank(kRanks, [&](int rank) {
    horingParo_t paro = nullptr;
    horingComm_t& comm = comms_[static_cast<size_t>(rank)];
    const horingParoConfig_t config = configOf(horingParoGGG);
    ASSERT_PARO(horingParoCreate(&paro, comm, &config, kModel.data(), kModel.size()));
    ASSERT_PARO(horingParoGatherParams(paro, 0));
    const void* values = nullptr;
    ASSERT_PARO(horingParoGetParam(paro, 0, &values));
    ASSERT_PARO(horingParoReleaseParams(paro, 0));
    EXPECT_HORING(horingCommDestroy(comm));
    EXPECT_TRUE(paroRefuses(horingParoGatherParams(paro, 0), horingInvalidArgument, "comm"));
    EXPECT_TRUE(paroRefuses(horingParoOpenGrads(paro, 0), horingInvalidArgument, "comm"));
    EXPECT_TRUE(paroRefuses(horingParoSave(paro, "/tmp", 1), horingInvalidArgument, "comm"));
    EXPECT_PARO(horingParoDestroy(paro));
  });
  comms_.clear();
}

// Its groups and rails are this library's own, and complete when horingParoCreate returns.
TEST(Nonblocking, ACommunicatorThatDoesNotBlockServesEveryStrategy) {
  constexpr int kRanks = 4;
  const std::vector<horingComm_t> parents = makeGrid(2, 2);
  std::vector<horingComm_t> comms(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    const auto own = static_cast<size_t>(rank);
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.blocking = 0;
    const horingResult_t split = horingCommSplit(parents[own], 0, rank, &comms[own], &config);
    EXPECT_TRUE(split == horingSuccess || split == horingInProgress) << split;
    horingResult_t state = horingInProgress;
    while (state == horingInProgress) ASSERT_HORING(horingCommGetAsyncError(comms[own], &state));
    ASSERT_HORING(state);
    const horingParoConfig_t wanted = configOf(horingParoIIG);
    horingParo_t paro = nullptr;
    EXPECT_PARO(horingParoCreate(&paro, comms[own], &wanted, kModel.data(), kModel.size()));
    EXPECT_PARO(horingParoDestroy(paro));
  });
  destroyAll(comms);
  destroyAll(parents);
}

// The communicators of groups and rails count their ranks otherwise.
TEST_F(Misuse, FailuresInsideAGroupNameTheRanksOfAll) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  std::barrier made(kRanks);
  onEveryRank(kRanks, [&](int rank) {
    const horingParoConfig_t config = configOf(horingParoIIG);
    horingComm_t& comm = comms_[static_cast<size_t>(rank)];
    horingParo_t paro = nullptr;
    EXPECT_PARO(horingParoCreate(&paro, comm, &config, kModel.data(), kModel.size()));
    made.arrive_and_wait();
    ASSERT_NE(paro, nullptr);
    if (rank == 2) {
      EXPECT_HORING(horingCommAbort(comm));
      comm = nullptr;
    } else if (rank == 3) {
      const void* values = nullptr;
      horingResult_t result = horingParoGatherParams(paro, 0);
      if (result == horingSuccess) result = horingParoGetParam(paro, 0, &values);
      EXPECT_TRUE(paroRefuses(result, horingRemoteError, "rank 2"));
      EXPECT_TRUE(paroRefuses(horingParoOpenGrads(paro, 0), horingRemoteError, "rank 2"));
    }
    EXPECT_PARO(horingParoDestroy(paro));
  });
  std::erase(comms_, nullptr);
}

TEST_F(Misuse, RanksOfAGroupThatDisagreeAreToldWhichTheyAre) {
  onEveryRank(kRanks, [&](int rank) {
    const horingParoConfig_t config = configOf(horingParoIIG);
    horingParo_t paro = nullptr;
    ASSERT_PARO(
        horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
    if (rank >= 2) {
      const void* values = nullptr;
      horingResult_t result = horingParoGatherParams(paro, rank - 2);
      if (result == horingSuccess) result = horingParoGetParam(paro, rank == 2 ? 0 : 1, &values);
      EXPECT_TRUE(paroRefuses(result, horingInvalidUsage,
                              "; ranks are counted in this rank's group, which are ranks 2, 3 of all"));
    }
    EXPECT_PARO(horingParoDestroy(paro));
  });
}

TEST(MisuseOfRanks, ALostPeerSticks) {
  const Setting timeout("HORING_TIMEOUT_MS", "60000");
  const std::vector<horingComm_t> comms = makeGrid(1, 2);
  onEveryRank(2, [&](int rank) {
    const horingParoConfig_t config = configOf(horingParoGGG);
    horingParo_t paro = nullptr;
    ASSERT_PARO(
        horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
    if (rank == 1) {
      EXPECT_HORING(horingCommAbort(comms[1]));
    } else {
      const void* values = nullptr;
      horingResult_t result = horingParoGatherParams(paro, 0);
      if (result == horingSuccess) result = horingParoGetParam(paro, 0, &values);
      EXPECT_EQ(result, horingRemoteError) << horingParoGetLastError();
      EXPECT_NE(std::string(horingParoGetLastError()).find("rank 1"), std::string::npos)
          << horingParoGetLastError();
      EXPECT_TRUE(paroRefuses(horingParoOpenGrads(paro, 0), horingRemoteError, "rank 1"));
    }
    EXPECT_PARO(horingParoDestroy(paro));
  });
  EXPECT_HORING(horingCommDestroy(comms[0]));
}

}  // namespace
