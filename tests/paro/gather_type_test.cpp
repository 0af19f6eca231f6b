// gatherType: parameters that are gathered in a narrower type than they have. Masters are as exact as without it.
#include <algorithm>

#include "../temporary_folder.h"
#include "job.h"

namespace {

constexpr int kRanks = 4;
constexpr int kFrozen = 6;  // of float32, in kModel

horingDataType_t wireOf(horingDataType_t own, horingDataType_t gathered) {
  return bytesOf(own) > bytesOf(gathered) ? gathered : own;
}

horingParoConfig_t gatheredIn(horingDataType_t type, int strategy = horingParoIIG) {
  horingParoConfig_t config = configOf(static_cast<horingParoStrategy_t>(strategy));
  config.gatherType = type;
  return config;
}

class GatherType : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override { comms_ = makeGroupsOf(GetParam()); }
  void TearDown() override { destroyAll(comms_); }

  std::vector<horingComm_t> comms_;
};

void expectTypes(horingParo_t paro, const horingParoConfig_t& config) {
  for (size_t p = 0; p < kModel.size(); ++p) {
    horingParoPlace_t place{};
    horingParoBucket_t info{};
    ASSERT_PARO(horingParoGetPlace(paro, p, &place));
    ASSERT_PARO(horingParoGetBucket(paro, place.bucket, &info));
    const horingDataType_t own = kModel[p].type,
                           wire = wireOf(own, static_cast<horingDataType_t>(config.gatherType));
    EXPECT_EQ(info.type, wire) << p;
    const bool widens = kModel[p].trainable && bytesOf(own) == 2;
    EXPECT_EQ(info.masterType, widens ? horingFloat32 : own) << p;
    if (!info.trainable) continue;
    EXPECT_EQ(info.gradType, config.gradsInFloat32 && bytesOf(wire) == 2 ? horingFloat32 : wire) << p;
    horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
    ASSERT_PARO(horingParoGetMaster(paro, place.bucket, &shard));
    EXPECT_EQ(shard.stateType, info.masterType) << p;
  }
}

TEST_P(GatherType, TrainsMastersThatAreExact) {
  std::vector<Reference> after = {Reference(kModel, Optimizer::kAdam)};
  for (int step = 0; step < 2; ++step) {
    after.push_back(after.back());
    after.back().step(kRanks, 2, step, 1);
  }
  for (const auto type : {horingBfloat16, horingFloat16, horingFloat32})
    for (int number = 0; number < horingParoNumStrategies; ++number) {
      SCOPED_TRACE(testing::Message() << "type " << type << ", strategy " << number);
      horingParoConfig_t config = gatheredIn(type, number);
      config.gradsInFloat32 = number % 2;
      onClients(comms_, config, kModel, [&](horingParo_t paro, Trainee& trainee) {
        expectTypes(paro, config);
        trainee.initialise();
        for (int step = 0; step < 2; ++step) {
          ASSERT_NO_FATAL_FAILURE(trainee.expectParams(after[static_cast<size_t>(step)]));
          ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kAdam, 2, step));
        }
        ASSERT_NO_FATAL_FAILURE(trainee.expectParams(after.back()));
        ASSERT_NO_FATAL_FAILURE(trainee.expectMasters(after.back()));
        horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
        horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
        ASSERT_PARO(horingParoGetInfo(paro, &info));
        ASSERT_PARO(horingParoGetUsage(paro, &usage));
        EXPECT_EQ(usage.stateBytes, info.memoryBytes);
        // Two buckets at once, and no masters any more.
        const uint64_t longest = padded(1003, type, kRanks) * bytesOf(type),
                       next = std::max(padded(257, type, kRanks) * bytesOf(type),
                                       padded(7 + 501, horingBfloat16, kRanks) * 2);
        EXPECT_LE(usage.gatheredBytes, longest + next);
      });
      if (HasFailure()) return;
    }
}

TEST_P(GatherType, KeepsFrozenParametersExact) {
  const size_t count = kModel[kFrozen].count;
  const std::vector<float> thirds(count, 1.0F / 3);
  for (const auto strategy : {horingParoNNI, horingParoIIG, horingParoGGG})
    onClients(comms_, gatheredIn(horingBfloat16, strategy), kModel, [&](horingParo_t paro, Trainee& trainee) {
      trainee.initialise();
      ASSERT_PARO(horingParoSetParam(paro, kFrozen, thirds.data(), count, horingFloat32));
      horingParoPlace_t place{};
      ASSERT_PARO(horingParoGetPlace(paro, kFrozen, &place));
      const void* values = nullptr;
      ASSERT_PARO(horingParoGatherParams(paro, place.bucket));
      ASSERT_PARO(horingParoGetParam(paro, kFrozen, &values));
      EXPECT_EQ(asDouble(values, horingBfloat16, count - 1), rounded(thirds[0], horingBfloat16));
      ASSERT_PARO(horingParoReleaseParams(paro, place.bucket));
      ASSERT_PARO(horingParoGatherMasters(paro, place.bucket));
      ASSERT_PARO(horingParoGetParam(paro, kFrozen, &values));
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(static_cast<const float*>(values)[i], thirds[0]);
      ASSERT_PARO(horingParoReleaseParams(paro, place.bucket));
    });
}

// Whatever type they are gathered in.
TEST_P(GatherType, IsNotInCheckpoints) {
  const horing::test::TemporaryFolder folder;
  Reference reference(kModel, Optimizer::kAdam);
  reference.step(kRanks, 1, 0, 1);
  int saved = 0;
  const std::pair<int, int> from_to[] = {
      {0, horingBfloat16}, {horingBfloat16, 0}, {horingFloat16, horingFloat32}};
  for (const auto& [from, to] : from_to)
    for (const auto& [saved_by, loaded_by] :
         {std::pair(horingParoIIG, horingParoNNI), std::pair(horingParoNNN, horingParoGGG)}) {
      const std::string path = folder.path() / std::to_string(saved++);
      horingParoConfig_t config = configOf(saved_by);
      config.gatherType = from;
      onClients(comms_, config, kModel, [&](horingParo_t paro, Trainee& trainee) {
        trainee.initialise();
        ASSERT_NO_FATAL_FAILURE(trainee.step(Optimizer::kAdam, 1, 0));
        ASSERT_PARO(horingParoSave(paro, path.c_str(), 1));
      });
      config = configOf(loaded_by);
      config.gatherType = to;
      onClients(comms_, config, kModel, [&](horingParo_t paro, Trainee& trainee) {
        ASSERT_PARO(horingParoLoad(paro, path.c_str(), nullptr));
        ASSERT_NO_FATAL_FAILURE(trainee.expectMasters(reference));
        trainee.expectParams(reference);
      });
      if (HasFailure()) return;
    }
}

const Sizes kGatheredLayouts[] = {{2, 2}, {3, 1}};
INSTANTIATE_TEST_SUITE_P(Layouts, GatherType, testing::ValuesIn(kGatheredLayouts),
                         [](const auto& info) { return info.index == 0 ? "even" : "uneven"; });

// The paper's 16 bytes of an element: 2 of the parameter, 2 of its gradient, 12 of state.
TEST(GatherTypeMemory, IsThatOfMixedPrecision) {
  const std::vector<horingComm_t> comms = makeGrid(2, 1);
  const std::vector<horingParoParam_t> params = {{1024, horingFloat32, 1}, {512, horingFloat32, 0}};
  onEveryRank(2, [&](int rank) {
    const auto own = static_cast<size_t>(rank);
    const horingParoConfig_t config = gatheredIn(horingBfloat16, horingParoNNN);
    horingParo_t paro = nullptr;
    ASSERT_PARO(horingParoCreate(&paro, comms[own], &config, params.data(), params.size()));
    horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
    EXPECT_PARO(horingParoGetInfo(paro, &info));
    EXPECT_EQ(info.memoryBytes, 16U * 1024 + 6 * 512);
    EXPECT_PARO(horingParoDestroy(paro));
  });
  destroyAll(comms);
}

TEST(GatherTypeMisuse, IsRefused) {
  const std::vector<horingComm_t> comms = makeGrid(2, 1);
  onEveryRank(2, [&](int rank) {
    horingParo_t paro = nullptr;
    const auto create = [&](const horingParoConfig_t& config) {
      return horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, kModel.data(), kModel.size());
    };
    for (const int wrong : {static_cast<int>(horingFloat64), static_cast<int>(horingFloat8e4m3), 99, -1}) {
      horingParoConfig_t config = configOf(horingParoIIG);
      config.gatherType = wrong;
      EXPECT_TRUE(paroRefuses(create(config), horingInvalidArgument,
                              "expected horingBfloat16, horingFloat16, horingFloat32, or 0"));
    }
    EXPECT_TRUE(paroRefuses(create(gatheredIn(rank == 0 ? horingBfloat16 : horingFloat16)),
                            horingInvalidUsage, "rank 1: gatherType is "));
    ASSERT_PARO(create(gatheredIn(horingBfloat16)));
    const void* values = nullptr;
    EXPECT_TRUE(
        paroRefuses(horingParoGatherMasters(paro, 99), horingInvalidArgument, "bucket 99 does not exist"));
    ASSERT_PARO(horingParoGatherMasters(paro, 0));
    EXPECT_TRUE(
        paroRefuses(horingParoGatherParams(paro, 0), horingInvalidUsage, "bucket 0 is gathered already"));
    ASSERT_PARO(horingParoGetParam(paro, 0, &values));
    ASSERT_PARO(horingParoReleaseParams(paro, 0));
    EXPECT_TRUE(paroRefuses(horingParoSetParam(paro, 0, values, 1003, horingBfloat16), horingInvalidArgument,
                            "type is bfloat16, and parameter 0 has float32"));
    EXPECT_PARO(horingParoDestroy(paro));
  });
  destroyAll(comms);
}

}  // namespace
