// Parameters with names: errors say them, and ranks agree on them.
#include "job.h"

namespace {

const std::vector<horingParoParam_t> kParams = {{10, horingFloat32, 1}, {6, horingBfloat16, 1}};

class ParamNames : public testing::Test {
 protected:
  void SetUp() override { comms_ = makeGrid(2, 1); }
  void TearDown() override { destroyAll(comms_); }

  // body(paro, result of horingParoCreate) on every rank; `names` of the rank may be changed by prepare(rank, names).
  template <typename Prepare, typename Body>
  void onClients(Prepare prepare, Body body, std::vector<horingParoParam_t> params = kParams) {
    onEveryRank(2, [&](int rank) {
      std::vector<const char*> names = {"words.weight", "layers.0.größe"};
      prepare(rank, names);
      horingParoConfig_t config = configOf(horingParoGGG);
      config.names = names.data();
      horingParo_t paro = nullptr;
      const horingResult_t result =
          horingParoCreate(&paro, comms_[static_cast<size_t>(rank)], &config, params.data(), params.size());
      names.assign(names.size(), "another");
      body(paro, result);
      if (paro) {
        EXPECT_PARO(horingParoDestroy(paro));
      }
    });
  }
  template <typename Prepare>
  void expectRefused(Prepare prepare, horingResult_t expected, const char* named) {
    onClients(prepare, [&](horingParo_t paro, horingResult_t result) {
      EXPECT_TRUE(paroRefuses(result, expected, named));
      EXPECT_EQ(paro, nullptr);
    });
  }

  std::vector<horingComm_t> comms_;
};

TEST_F(ParamNames, AreInErrors) {
  const auto unchanged = [](int, auto&) {};
  onClients(unchanged, [](horingParo_t paro, horingResult_t result) {
    ASSERT_PARO(result);
    const float value = 1;
    EXPECT_TRUE(paroRefuses(horingParoSetParam(paro, 1, &value, 1, horingFloat32), horingInvalidArgument,
                            "count is 1, and parameter 1 (layers.0.größe) has 6 elements"));
    EXPECT_TRUE(paroRefuses(horingParoSetParam(paro, 0, &value, 10, horingFloat64), horingInvalidArgument,
                            "type is float64, and parameter 0 (words.weight) has float32"));
    EXPECT_TRUE(paroRefuses(horingParoSetParam(paro, 0, nullptr, 10, horingFloat32), horingInvalidArgument,
                            "values is NULL: expected the 10 elements of parameter 0 (words.weight)"));
  });
  onClients(unchanged,
            [](horingParo_t, horingResult_t result) {
              EXPECT_TRUE(paroRefuses(result, horingInvalidArgument,
                                      "parameter 1 (layers.0.größe) has type 0: expected"));
            },
            {{10, horingFloat32, 1}, {6, horingInt8, 1}});
}

TEST_F(ParamNames, ThatAreNoneAreRefused) {
  const auto name_second = [](const char* name) {
    return [name](int rank, std::vector<const char*>& names) {
      if (rank == 1) names[1] = name;
    };
  };
  const std::string longest(1024, 'a'), longer(1025, 'a');
  expectRefused(name_second(nullptr), horingInvalidArgument, "rank 1: config.names[1] is NULL");
  expectRefused(name_second(""), horingInvalidArgument, "the name of parameter 1 has 0 bytes");
  expectRefused(name_second(longer.c_str()), horingInvalidArgument,
                "parameter 1 has 1025 bytes: expected 1 to 1024");
  expectRefused(name_second("a\nb"), horingInvalidArgument,
                "the name of parameter 1 has a control character");
  expectRefused(name_second("words.weight"), horingInvalidArgument,
                "parameters 0 and 1 have the same name, words.weight");
  // Cut short, Latin-1, a continuation alone, longer than necessary, a surrogate, beyond the last character.
  for (const char* const wrong : {"ab\xe2\x82",
                                  "ab\xe4"
                                  "c",
                                  "ab\x80", "ab\xc0\xaf", "ab\xe0\x9f\xbf", "ab\xed\xa0\x80",
                                  "ab\xf0\x8f\xbf\xbf", "ab\xf4\x90\x80\x80", "ab\xf5\x80\x80\x80"})
    expectRefused(name_second(wrong), horingInvalidArgument,
                  "the name of parameter 1 is not UTF-8 from byte 2 on");
  onClients(
      [&](int, auto& names) {
        names[1] = "\xc2\x80 \xe2\x82\xac \xed\x9f\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf";
      },
      [](horingParo_t, horingResult_t result) { EXPECT_PARO(result); });
  onClients([&](int, auto& names) { names[1] = longest.c_str(); },
            [](horingParo_t, horingResult_t result) { EXPECT_PARO(result); });
}

TEST_F(ParamNames, AreTheSameOnEveryRank) {
  expectRefused(
      [](int rank, auto& names) {
        if (rank == 1) names[0] = "words.weights";
      },
      horingInvalidUsage, "rank 1: parameter 0 (words.weights) has another name on rank 0");
}

}  // namespace
