// horingParoLoadByName: parts of a checkpoint, in any order and of other types.
#include "../temporary_folder.h"
#include "forgery.h"
#include "job.h"

namespace {

struct Named {
  const char* name;
  horingParoParam_t param;
};

// Thirds, which no type holds exactly.
double valueOf(const std::string& name, size_t i) {
  return static_cast<double>(name.size() * 7 + i % 50) / 3;
}
constexpr double kKept = -11, kSavedState = 5, kOwnState = 9;

// One rank's client of these parameters.
class Part {
 public:
  Part(horingComm_t comm, const std::vector<Named>& model, horingParoStrategy_t strategy, int state_values,
       bool has_names = true)
      : model_(model) {
    std::vector<const char*> names;
    std::vector<horingParoParam_t> params;
    for (const Named& each : model) names.push_back(each.name), params.push_back(each.param);
    horingParoConfig_t config = configOf(strategy);
    config.stateValues = state_values;
    if (has_names) config.names = names.data();
    EXPECT_PARO(horingParoCreate(&paro_, comm, &config, params.data(), params.size()));
  }
  ~Part() { EXPECT_PARO(horingParoDestroy(paro_)); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  horingParo_t paro() const { return paro_; }

  void fill(bool by_name, double state) {
    for (size_t p = 0; p < model_.size(); ++p) {
      const auto& [count, type, trainable] = model_[p].param;
      std::vector<double> values(count);
      for (size_t i = 0; i < count; ++i)
        put(values.data(), type, i, by_name ? valueOf(model_[p].name, i) : kKept);
      ASSERT_PARO(horingParoSetParam(paro_, p, values.data(), count, type));
    }
    const std::vector<const void*> none(model_.size());
    forEachShard([&](int bucket, size_t) {
      size_t params = 0;
      for (size_t p = 0; p < model_.size(); ++p) params += bucketOf(p) == bucket;
      ASSERT_PARO(horingParoReduceGradsOf(paro_, bucket, none.data(), params));
    });
    ASSERT_PARO(horingParoSyncGrads(paro_));
    forEachState([&](size_t, const horingParoShard_t& shard, void* values, size_t i) {
      put(values, shard.stateType, i, state);
    });
    ASSERT_PARO(horingParoSyncParams(paro_));
  }

  // Of a parameter, as saved in `from`; horingNumTypes: it was not loaded.
  void expectValues(size_t p, horingDataType_t from) {
    ASSERT_PARO(horingParoGatherMasters(paro_, bucketOf(p)));
    const void* values = nullptr;
    horingParoBucket_t info{};
    ASSERT_PARO(horingParoGetBucket(paro_, bucketOf(p), &info));
    ASSERT_PARO(horingParoGetParam(paro_, p, &values));
    for (size_t i = 0; i < model_[p].param.count; ++i) {
      const double given = from == horingNumTypes ? kKept : rounded(valueOf(model_[p].name, i), from);
      ASSERT_EQ(asDouble(values, info.masterType, i), rounded(given, info.masterType))
          << model_[p].name << ", element " << i;
    }
    ASSERT_PARO(horingParoReleaseParams(paro_, bucketOf(p)));
  }

  // What all of the parameter's state of that number is here.
  void expectState(size_t p, int number, double expected) {
    forEachState([&](size_t param, const horingParoShard_t& shard, void* values, size_t i) {
      if (param == p && values == shard.state[number]) {
        ASSERT_EQ(asDouble(values, shard.stateType, i), expected) << model_[p].name << ", state " << number;
      }
    });
  }

 private:
  int bucketOf(size_t p) const {
    horingParoPlace_t place{};
    EXPECT_PARO(horingParoGetPlace(paro_, p, &place));
    return place.bucket;
  }
  // Of trainable buckets: body(bucket, first parameter).
  template <typename Body>
  void forEachShard(Body body) {
    int last = -1;
    for (size_t p = 0; p < model_.size(); ++p) {
      if (!model_[p].param.trainable || bucketOf(p) <= last) continue;
      last = bucketOf(p);
      body(last, p);
    }
  }
  // body(parameter, shard, values, element of the shard)
  template <typename Body>
  void forEachState(Body body) {
    for (size_t p = 0; p < model_.size(); ++p) {
      if (!model_[p].param.trainable) continue;
      horingParoPlace_t place{};
      horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
      ASSERT_PARO(horingParoGetPlace(paro_, p, &place));
      ASSERT_PARO(horingParoGetMaster(paro_, place.bucket, &shard));
      for (void* const values : shard.state)
        for (size_t i = 0; values && i < shard.count; ++i)
          if (shard.first + i >= place.offset && shard.first + i < place.offset + place.count)
            body(p, shard, values, i);
    }
  }

  const std::vector<Named> model_;
  horingParo_t paro_ = nullptr;
};

const std::vector<Named> kSaved = {{"words", {301, horingFloat32, 1}},
                                   {"norm", {7, horingBfloat16, 1}},
                                   {"wide one", {33, horingFloat64, 1}},
                                   {"base.frozen", {129, horingFloat16, 0}},
                                   {"base.head", {19, horingFloat16, 1}}};
// Other types and another order, some frozen or thawed, one of its own; "norm" is left out.
const std::vector<Named> kLoaded = {
    {"base.frozen", {129, horingFloat32, 1}}, {"own", {40, horingFloat32, 1}},
    {"wide one", {33, horingFloat32, 1}},     {"own.frozen", {12, horingBfloat16, 0}},
    {"base.head", {19, horingFloat64, 0}},    {"words", {301, horingBfloat16, 1}}};

class LoadByName : public testing::Test {
 protected:
  LoadByName() : comms_(makeGroupsOf({3, 1})), path_(folder_.path() / "checkpoint") {}
  ~LoadByName() override { destroyAll(comms_); }

  // body(comm, rank) on every rank.
  template <typename Body>
  void onRanks(Body body) {
    onEveryRank(4, [&](int rank) { body(comms_[static_cast<size_t>(rank)], rank); });
  }
  void save(const std::vector<Named>& model = kSaved, horingParoStrategy_t strategy = horingParoIIG,
            bool has_names = true) {
    onRanks([&](horingComm_t comm, int) {
      Part part(comm, model, strategy, 1, has_names);
      part.fill(true, kSavedState);
      ASSERT_PARO(horingParoSave(part.paro(), path_.c_str(), 6));
    });
  }
  // Every rank refuses, and keeps what it has.
  void expectRefused(const std::vector<Named>& model, bool strict, horingResult_t result, const char* named,
                     bool has_names = true) {
    onRanks([&](horingComm_t comm, int) {
      Part part(comm, model, horingParoGGG, 1, has_names);
      part.fill(false, kOwnState);
      std::vector<int> loaded(model.size(), 3);
      EXPECT_TRUE(paroRefuses(
          horingParoLoadByName(part.paro(), path_.c_str(), strict, loaded.data(), nullptr), result, named));
      EXPECT_EQ(loaded, std::vector<int>(model.size(), 3));
      for (size_t p = 0; p < model.size(); ++p) part.expectValues(p, horingNumTypes);
    });
  }

  const std::vector<horingComm_t> comms_;
  const horing::test::TemporaryFolder folder_;
  const std::string path_;
};

TEST_F(LoadByName, TakesWhatBothHaveInItsOwnTypes) {
  for (const auto saved_by : {horingParoIIG, horingParoNNN}) {
    save(kSaved, saved_by);
    for (const auto loaded_by : {horingParoNNI, horingParoIII, horingParoGGG})
      onRanks([&](horingComm_t comm, int) {
        Part part(comm, kLoaded, loaded_by, 2);
        part.fill(false, kOwnState);
        std::vector<int> loaded(kLoaded.size(), 3);
        uint64_t step = 0;
        ASSERT_PARO(horingParoLoadByName(part.paro(), path_.c_str(), 0, loaded.data(), &step));
        EXPECT_EQ(step, 6u);
        EXPECT_EQ(loaded, (std::vector<int>{1, 0, 1, 0, 1, 1}));
        // Of trainable ones the master was saved, in float32 at least, with the values that were set.
        const horingDataType_t from[] = {horingFloat16,  horingNumTypes, horingFloat64,
                                         horingNumTypes, horingFloat16,  horingFloat32};
        for (size_t p = 0; p < kLoaded.size(); ++p) part.expectValues(p, from[p]);
        const double first[] = {0, kOwnState, kSavedState, 0, 0, kSavedState},
                     second[] = {0, kOwnState, 0, 0, 0, 0};
        for (const size_t p : {0, 1, 2, 5}) {
          part.expectState(p, 0, first[p]);
          part.expectState(p, 1, second[p]);
        }
      });
    if (HasFailure()) return;
  }
}

TEST_F(LoadByName, IsStrictWhereAsked) {
  save();
  expectRefused({{"words", {301, horingFloat32, 1}}}, true, horingInvalidArgument,
                "the checkpoint has parameter 1 (norm), and this model no parameter of that name");
  std::vector<Named> more = kSaved;
  more.push_back({"own", {40, horingFloat32, 1}});
  expectRefused(more, true, horingInvalidArgument, "the checkpoint lacks parameter 5 (own)");
  std::vector<Named> other = kSaved;
  std::swap(other[1], other[2]);
  other[0].param.type = horingFloat16;
  onRanks([&](horingComm_t comm, int) {
    Part part(comm, other, horingParoNIG, 1);
    part.fill(false, kOwnState);
    EXPECT_TRUE(paroRefuses(horingParoLoad(part.paro(), path_.c_str(), nullptr), horingInvalidArgument,
                            "its parameter 0 (words) has 301 float32 elements"));
    ASSERT_PARO(horingParoLoadByName(part.paro(), path_.c_str(), 1, nullptr, nullptr));
    for (size_t p = 0; p < other.size(); ++p)
      part.expectValues(p, p == 0 ? horingFloat32 : other[p].param.type);
  });
}

TEST_F(LoadByName, SaysTheNameOfWhatDiffers) {
  save();
  expectRefused({{"base.head", {20, horingFloat16, 1}}}, false, horingInvalidArgument,
                "parameter 0 (base.head) has 20 elements, and 19 in the checkpoint");
  expectRefused(kSaved, false, horingInvalidUsage, "without names: expected config.names", false);
  std::vector<Named> renamed = kSaved;
  renamed[3].name = "another";
  onRanks([&](horingComm_t comm, int) {
    const Part part(comm, renamed, horingParoIIG, 1);
    EXPECT_TRUE(paroRefuses(horingParoLoad(part.paro(), path_.c_str(), nullptr), horingInvalidArgument,
                            "its parameter 3 (base.frozen) is another in this one"));
    const Part nameless(comm, kSaved, horingParoIIG, 1, false);
    EXPECT_PARO(horingParoLoad(nameless.paro(), path_.c_str(), nullptr));
  });
  save(kSaved, horingParoIIG, false);
  expectRefused(kSaved, false, horingInvalidArgument, "the checkpoint has no names");
}

TEST_F(LoadByName, RefusesForgedNames) {
  save();
  const std::string manifest = contentOf(path_ + "/manifest");
  const struct {
    const char* name;
    const char* named;
  } forgeries[] = {{"words", "parameters 0 and 1 have the same name, words"},
                   {"\x1b[31m", "the name of parameter 1 has a control character"},
                   {"", "the name of parameter 1 has 0 bytes"}};
  for (const auto& forgery : forgeries) {
    std::string forged = manifest;
    forged.replace(forged.find(" norm\n") + 1, 4, forgery.name);
    forged.erase(forged.rfind("digest "));
    writeManifest(path_ + "/manifest", forged);
    expectRefused(kSaved, false, horingInvalidArgument, forgery.named);
  }
}

}  // namespace
