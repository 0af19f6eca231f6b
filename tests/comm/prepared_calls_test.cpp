// That calls which repeat the one before take the short way, and when they do not. What comes out of them: tests/capi.
#include "comm/prepared_calls.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "comm_ranks.h"
#include "transport/loopback/hub.h"

namespace horing {
namespace {

constexpr int kRanks = 2;

class Prepared : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = rootOfThisMachine();
    const std::shared_ptr<LoopbackHub> hub = LoopbackHub::create(kRanks).take();
    ranks_ = makeRanks(kRanks, *root_, [&](CommunicatorOptions& options) { options.hub = hub; });
    ASSERT_FALSE(HasFailure());
  }
  void TearDown() override {
    for (const auto& rank : ranks_) EXPECT_TRUE(!rank || rank->leave().ok());
  }
  Communicator& comm(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

  // What a rank reduces: numbers of its own.
  struct Data {
    std::vector<float> input, output;
    explicit Data(int rank) : input(16, static_cast<float>(rank + 1)), output(16) {}
    PlainCall call(size_t count = 2) {
      return {.input = input.data(), .output = output.data(), .count = count};
    }
  };
  // The long way, twice: the first makes the plan.
  void runLong(int rank, Data& data, RedOp op = RedOp::kSum) {
    Call call;
    call.input = reinterpret_cast<const std::byte*>(data.input.data());
    call.output = reinterpret_cast<std::byte*>(data.output.data());
    call.count = 2;
    call.op = op;
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(comm(rank).run(Collective::kAllReduce, call).ok());
  }

  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_F(Prepared, ARepeatedCallTakesTheShortWay) {
  onEveryRank(kRanks, [&](int rank) {
    Data first(rank), second(rank);
    EXPECT_FALSE(comm(rank).runAgain(first.call())) << "nothing was called yet";
    runLong(rank, first);
    for (int i = 0; i < 3; ++i) {
      const std::optional<Status> status = comm(rank).runAgain(second.call());
      ASSERT_TRUE(status);
      EXPECT_TRUE(status->ok()) << status->toString();
      EXPECT_EQ(second.output[1], 3.0f);
    }
  });
}

TEST_F(Prepared, WhatDiffersTakesTheLongWay) {
  onEveryRank(kRanks, [&](int rank) {
    Data data(rank);
    runLong(rank, data);
    PlainCall other = data.call();
    EXPECT_FALSE(comm(rank).runAgain(data.call(3)));
    EXPECT_FALSE(comm(rank).runAgain(data.call(0)));
    other.type = DataType::kInt32;
    EXPECT_FALSE(comm(rank).runAgain(other));
    other = data.call();
    other.op = RedOp::kMax;
    EXPECT_FALSE(comm(rank).runAgain(other));
    other = data.call();
    other.root = 1;
    EXPECT_FALSE(comm(rank).runAgain(other));
    other = data.call();
    other.collective = Collective::kAllGather;
    EXPECT_FALSE(comm(rank).runAgain(other));
    other = data.call();
    other.output = data.input.data() + 1;
    EXPECT_FALSE(comm(rank).runAgain(other)) << "overlaps";
    EXPECT_TRUE(comm(rank).runAgain(data.call())) << "and nothing of that was a call";
  });
}

TEST_F(Prepared, AnotherTableForgetsWhatWasFound) {
  onEveryRank(kRanks, [&](int rank) {
    Data data(rank);
    runLong(rank, data);
    comm(rank).chooseBy(SelectionTable::builtIn());
    EXPECT_FALSE(comm(rank).runAgain(data.call()));
  });
}

TEST_F(Prepared, ScalarsOfTheCallerAreReadAnewForEachCall) {
  onEveryRank(kRanks, [&](int rank) {
    Data data(rank);
    runLong(rank, data, RedOp::kPreMulSum);
    PlainCall call = data.call();
    call.op = RedOp::kPreMulSum;
    EXPECT_FALSE(comm(rank).runAgain(call));
  });
}

}  // namespace
}  // namespace horing
