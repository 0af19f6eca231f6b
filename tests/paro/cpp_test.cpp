// paro.hpp.
#include <cmath>
#include <numeric>

#include "../temporary_folder.h"
#include "horing/paro.hpp"
#include "job.h"

namespace {

const std::vector<horingParoParam_t> kTensors = {
    {10, horingFloat32, 1}, {3, horingFloat64, 1}, {5, horingFloat32, 0}};

TEST(ParoCpp, TrainsWithSpans) {
  std::vector<horing::Communicator> comms = horing::Communicator::all(2);
  onEveryRank(2, [&](int rank) {
    horing::Paro model(comms[static_cast<size_t>(rank)], kTensors, horing::Paro::strategy("zero-3"));
    EXPECT_EQ(model.info().strategy, horingParoGGG);
    EXPECT_EQ(model.info().numBuckets, 3);
    std::vector<float> values(10);
    std::iota(values.begin(), values.end(), 0.0f);
    model.setParam(0, values);
    const int bucket = model.place(0).bucket;
    for (int number = 0; number < 2; ++number) {
      horing::Paro::Grads grads = model.openGrads(number);
      if (number == bucket)
        for (float& element : grads.grad<float>(0)) element = static_cast<float>(rank + 1);
      grads.reduce();
    }
    {
      const horing::Paro::Grads grads = model.openGrads(bucket);
      for (float& element : grads.grad<float>(0)) element = 99;
    }  // discarded
    model.syncGrads();
    const auto [norm, overflow] = model.gradNorm();
    EXPECT_DOUBLE_EQ(norm, std::sqrt(10 * 1.5 * 1.5));  // the average of 1 and 2
    EXPECT_FALSE(overflow);
    model.forEachShard([](const horingParoShard_t& shard) {
      if (shard.stateType != horingFloat32) return;
      for (size_t i = 0; i < shard.count; ++i)
        static_cast<float*>(shard.master)[i] -= 2 * static_cast<const float*>(shard.grads)[i];
    });
    model.syncParams();
    {
      const horing::Paro::Gathered gathered = model.gather(bucket);
      const std::span<const float> now = gathered.param<float>(0);
      ASSERT_EQ(now.size(), 10u);
      for (size_t i = 0; i < 10; ++i) EXPECT_EQ(now[i], values[i] - 3);
      EXPECT_THROW((void)gathered.param<double>(0), horing::Error);
    }
    (void)model.gather(bucket);  // it was released
    horing::Paro moved = std::move(model);
    EXPECT_EQ(model.handle(), nullptr);
    EXPECT_GT(moved.usage().stateBytes, 0u);
  });
}

TEST(ParoCpp, GathersMastersAndLoadsByName) {
  const horing::test::TemporaryFolder folder;
  horing::Communicator comm = std::move(horing::Communicator::all(1).front());
  const char* const names[] = {"words", "scale", "base"};
  horingParoConfig_t config = horing::Paro::strategy("NNN");
  config.gatherType = horingBfloat16;
  config.names = names;
  horing::Paro model(comm, kTensors, config);
  model.setParam(0, std::vector<float>(10, 1.0F / 3));
  {
    const horing::Paro::Gathered masters = model.gatherMasters(model.place(0).bucket);
    EXPECT_EQ(masters.param<float>(0)[9], 1.0F / 3);
  }
  {
    const horing::Paro::Gathered gathered = model.gather(model.place(0).bucket);
    EXPECT_THROW((void)gathered.param<float>(0), horing::Error);  // it has bfloat16
  }
  model.save(folder.path(), 3);
  const std::vector<horingParoParam_t> tensors = {{4, horingFloat32, 1}, {10, horingFloat64, 1}};
  const char* const others[] = {"own", "words"};
  config = horing::Paro::strategy("NNN");
  config.names = others;
  horing::Paro other(comm, tensors, config);
  EXPECT_THROW((void)other.loadByName(folder.path(), true), horing::Error);
  const horing::Paro::Loaded loaded = other.loadByName(folder.path(), false);
  EXPECT_EQ(loaded.step, 3u);
  EXPECT_EQ(loaded.params, (std::vector<int>{0, 1}));
  EXPECT_EQ(other.gather(other.place(1).bucket).param<double>(1)[9], static_cast<double>(1.0F / 3));
}

TEST(ParoCpp, ThrowsWhatWentWrong) {
  horing::Communicator comm = std::move(horing::Communicator::all(1).front());
  try {
    (void)horing::Paro::strategy("GGN");
    FAIL() << "there is no GGN";
  } catch (const horing::Error& error) {
    EXPECT_EQ(error.result(), horingInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("no strategy 'GGN'"), std::string::npos) << error.what();
  }
  horing::Paro model(comm, kTensors);
  EXPECT_EQ(model.info().strategy, horingParoNNN);
  EXPECT_THROW(model.setParam(0, std::vector<float>(9)), horing::Error);
  EXPECT_THROW(model.syncParams(), horing::Error);
}

}  // namespace
