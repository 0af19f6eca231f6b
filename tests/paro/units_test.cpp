// What a program that trains layer by layer needs: buckets that end with a layer, and masters that stay where they are.
#include "job.h"

namespace {

class Units : public testing::Test {
 protected:
  void SetUp() override { comms_ = makeGrid(2, 2); }
  void TearDown() override { destroyAll(comms_); }

  static constexpr int kRanks = 4;
  std::vector<horingComm_t> comms_;
};

TEST_F(Units, ParametersOfDifferentUnitsShareNoBucket) {
  const std::vector<horingParoParam_t> params(6, {10, horingFloat32, 1});
  onEveryRank(kRanks, [&](int rank) {
    horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
    std::vector<int> units = {3, 3, -1, 3, -1, 8};
    config.units = units.data();
    horingParo_t paro = nullptr;
    ASSERT_PARO(
        horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size()));
    units.assign(units.size(), 0);
    const int buckets[] = {0, 0, 1, 0, 1, 2};
    const size_t offsets[] = {0, 10, 0, 20, 10, 0};
    for (size_t p = 0; p < params.size(); ++p) {
      horingParoPlace_t place{};
      ASSERT_PARO(horingParoGetPlace(paro, p, &place));
      EXPECT_EQ(place.bucket, buckets[p]) << p;
      EXPECT_EQ(place.offset, offsets[p]) << p;
    }
    EXPECT_PARO(horingParoDestroy(paro));
  });
}

TEST_F(Units, RanksThatDifferAreNamed) {
  onEveryRank(kRanks, [&](int rank) {
    horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
    std::vector<int> units(kModel.size(), 0);
    if (rank == 2) units[4] = 7;
    config.units = units.data();
    horingParo_t paro = nullptr;
    EXPECT_TRUE(paroRefuses(
        horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()),
        horingInvalidUsage, "rank 2: parameter 4 has 257 float64 elements, trainable, unit 7 here"));
  });
}

TEST_F(Units, MastersStayWhereTheyAre) {
  for (const auto strategy : {horingParoNNN, horingParoIIG, horingParoNIG, horingParoGGG})
    onEveryRank(kRanks, [&](int rank) {
      const horingParoConfig_t config = configOf(strategy);
      horingParo_t paro = nullptr;
      ASSERT_PARO(
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size()));
      Trainee trainee(paro, rank, kModel);
      trainee.initialise();
      horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
      ASSERT_PARO(horingParoGetInfo(paro, &info));
      std::vector<void*> masters;
      const auto expect_same = [&] {
        for (int bucket = 0; bucket < info.numBuckets; ++bucket) {
          if (!trainee.isTrainable(bucket)) continue;
          horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
          ASSERT_PARO(horingParoGetMaster(paro, bucket, &shard));
          EXPECT_EQ(shard.grads, nullptr);
          const auto at = static_cast<size_t>(bucket);
          if (masters.size() <= at) masters.resize(at + 1);
          if (!masters[at]) masters[at] = shard.master;
          EXPECT_EQ(shard.master, masters[at]);
          horingParoBucket_t info{};
          ASSERT_PARO(horingParoGetBucket(paro, bucket, &info));
          const auto is_aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 64 == 0; };
          EXPECT_TRUE(is_aligned(shard.state[0]) && is_aligned(shard.state[1]));
          EXPECT_TRUE(info.type == shard.stateType || is_aligned(shard.master));
        }
      };
      for (int step = 0; step < 2; ++step) {
        expect_same();
        trainee.giveGrads(0, step);
        ASSERT_PARO(horingParoSyncGrads(paro));
        expect_same();
        for (int bucket = 0; bucket < info.numBuckets; ++bucket) {
          if (!trainee.isTrainable(bucket)) continue;
          horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
          ASSERT_PARO(horingParoGetShard(paro, bucket, &shard));
          EXPECT_EQ(shard.master, masters[static_cast<size_t>(bucket)]);
        }
        trainee.updateShards(Optimizer::kSgd);
        ASSERT_PARO(horingParoSyncParams(paro));
      }
      expect_same();
      EXPECT_PARO(horingParoDestroy(paro));
    });
}

}  // namespace
