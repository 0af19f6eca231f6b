// Structures that say their size, of programs compiled with other headers.
#include <cstring>

#include "job.h"

namespace {

// Of a header with one more field.
template <typename Struct>
struct Newer {
  Struct known;
  uint64_t additional = 7;
  explicit Newer(const Struct& begun) : known(begun) { known.size = sizeof *this; }
};

class StructureSizes : public testing::Test {
 protected:
  void SetUp() override {
    comms_ = makeGroupsOf({1});
    const horingParoConfig_t config = configOf(horingParoNNN);
    ASSERT_PARO(horingParoCreate(&paro_, comms_[0], &config, kModel.data(), kModel.size()));
    Trainee(paro_, 0, kModel).giveGrads(0, 0);
    ASSERT_PARO(horingParoSyncGrads(paro_));
  }
  void TearDown() override {
    EXPECT_PARO(horingParoDestroy(paro_));
    destroyAll(comms_);
  }
  // `get` writes the struct, as one of this header and one of a newer one get it; other sizes are refused by name.
  template <typename Struct, typename Get>
  void expectWritten(const Struct& begun, const char* initialiser, Get get) {
    Struct own = begun;
    ASSERT_PARO(get(&own));
    EXPECT_EQ(own.size, sizeof own);
    EXPECT_NE(std::memcmp(&own, &begun, sizeof own), 0);
    Newer<Struct> newer(begun);
    ASSERT_PARO(get(&newer.known));
    EXPECT_EQ(newer.known.size, sizeof newer);
    EXPECT_EQ(newer.additional, 7u);
    newer.known.size = sizeof own;
    EXPECT_EQ(std::memcmp(&own, &newer.known, sizeof own), 0);
    for (const size_t size : {size_t{0}, sizeof own - 8, sizeof own + 1, size_t{1} << 20}) {
      own.size = size;
      EXPECT_TRUE(paroRefuses(get(&own), horingInvalidArgument, initialiser)) << size;
    }
    EXPECT_TRUE(paroRefuses(get(static_cast<Struct*>(nullptr)), horingInvalidArgument, "is NULL"));
  }
  horingResult_t createWith(const horingParoMemory_t& memory) const {
    horingParoConfig_t config = configOf(horingParoNNN);
    config.memory = &memory;
    horingParo_t paro = nullptr;
    const horingResult_t result = horingParoCreate(&paro, comms_[0], &config, kModel.data(), kModel.size());
    if (result == horingSuccess) {
      EXPECT_PARO(horingParoDestroy(paro));
    }
    return result;
  }

  std::vector<horingComm_t> comms_;
  horingParo_t paro_ = nullptr;
};

TEST_F(StructureSizes, OfResultsMayBeNewer) {
  expectWritten(horingParoInfo_t HORING_PARO_INFO_INITIALIZER, "HORING_PARO_INFO_INITIALIZER",
                [&](horingParoInfo_t* to) { return horingParoGetInfo(paro_, to); });
  expectWritten(horingParoUsage_t HORING_PARO_USAGE_INITIALIZER, "HORING_PARO_USAGE_INITIALIZER",
                [&](horingParoUsage_t* to) { return horingParoGetUsage(paro_, to); });
  expectWritten(horingParoShard_t HORING_PARO_SHARD_INITIALIZER, "HORING_PARO_SHARD_INITIALIZER",
                [&](horingParoShard_t* to) { return horingParoGetShard(paro_, 0, to); });
  expectWritten(horingParoShard_t HORING_PARO_SHARD_INITIALIZER, "HORING_PARO_SHARD_INITIALIZER",
                [&](horingParoShard_t* to) { return horingParoGetMaster(paro_, 0, to); });
  horingParoModel_t model = HORING_PARO_MODEL_INITIALIZER;
  model.groups = model.ranksPerGroup = 2;
  model.params = model.trainable = 1000;
  model.microSteps = 1;
  model.wireBytes = 4;
  expectWritten(horingParoEstimate_t HORING_PARO_ESTIMATE_INITIALIZER, "HORING_PARO_ESTIMATE_INITIALIZER",
                [&](horingParoEstimate_t* to) { return horingParoGetEstimate(horingParoIIG, &model, to); });
}

TEST_F(StructureSizes, OfModelsAndEstimatesMayBeNewer) {
  Newer<horingParoModel_t> model(HORING_PARO_MODEL_INITIALIZER);
  model.known.groups = model.known.ranksPerGroup = 2;
  model.known.params = 1000;
  model.known.microSteps = 1;
  model.known.wireBytes = 4;
  Newer<horingParoEstimate_t> cost(HORING_PARO_ESTIMATE_INITIALIZER);
  const auto estimate = [&] { return horingParoGetEstimate(horingParoGGG, &model.known, &cost.known); };
  EXPECT_TRUE(paroRefuses(estimate(), horingInvalidArgument, "model.size is "));
  model.additional = 0;
  ASSERT_PARO(estimate());
  EXPECT_EQ(cost.known.memoryBytes, 1000u);
  const horingParoRates_t rates{};
  double seconds = -1;
  const auto get_seconds = [&] { return horingParoGetSeconds(&cost.known, 1, &rates, &seconds); };
  EXPECT_TRUE(paroRefuses(get_seconds(), horingInvalidArgument, "this library knows only the fields"));
  cost.additional = 0;
  ASSERT_PARO(get_seconds());
  EXPECT_EQ(seconds, 0);
  model.known.size = 0;
  EXPECT_TRUE(paroRefuses(estimate(), horingInvalidArgument, "HORING_PARO_MODEL_INITIALIZER"));
}

TEST_F(StructureSizes, OfMemoryMayBeNewer) {
  Newer<horingParoMemory_t> memory(HORING_PARO_MEMORY_INITIALIZER);
  EXPECT_TRUE(paroRefuses(createWith(memory.known), horingInvalidArgument,
                          "rank 0: config.memory.size is 56, and byte 48 is set"));
  memory.additional = 0;
  EXPECT_PARO(createWith(memory.known));
  EXPECT_TRUE(paroRefuses(createWith({}), horingInvalidArgument,
                          "config.memory.size is 0: begin with HORING_PARO_MEMORY_INITIALIZER"));
}

}  // namespace
