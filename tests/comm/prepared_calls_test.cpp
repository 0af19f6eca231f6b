// The prepared forms of earlier calls are found again, and that changes nothing but the time. Results of repeated calls:
// tests/capi.
#include "comm/calls/prepared_calls.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/calls/total_bytes.h"
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

  // Sums up to 16 numbers, `first` + rank each.
  struct Sum {
    std::vector<float> input, output;
    Call call;
    explicit Sum(int rank, size_t count = 2, float first = 1)
        : input(16, first + static_cast<float>(rank)), output(16) {
      call.input = reinterpret_cast<const std::byte*>(input.data());
      call.output = reinterpret_cast<std::byte*>(output.data());
      call.count = count;
    }
  };
  std::unique_ptr<RootService> root_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST(PreparedCallsTable, FindsNothingButTheSameSpec) {
  PreparedCalls table;
  const CallSpec spec{.count = 2};
  EXPECT_EQ(table.find(spec), nullptr);
  PreparedCall& added = table.add(spec);
  EXPECT_EQ(table.find(spec), &added);
  const int32_t blocks[] = {1, 0};
  CallSpec others[] = {spec, spec, spec, spec, spec, spec, spec};
  others[0].count = 3;
  others[1].type = DataType::kInt32;
  others[2].op = RedOp::kMax;
  others[3].root = 1;
  others[4].collective = Collective::kAllGather;
  others[5].list = 7;
  others[6].block_of_position = blocks;
  for (const CallSpec& other : others) EXPECT_EQ(table.find(other), nullptr);
  table.clear();
  EXPECT_EQ(table.find(spec), nullptr);
}

TEST(PreparedCallsTable, NeverFindsTablesOfBlocks) {
  PreparedCalls table;
  const size_t counts[] = {1, 2}, offsets[] = {0, 1};
  const CallSpec spec{.uneven = true, .count = 2, .output_blocks = {counts, offsets}};
  table.add(spec);
  EXPECT_EQ(table.find(spec), nullptr);
}

TEST(PreparedCallsTable, IsBoundedAndKeepsTheLatest) {
  PreparedCalls table;
  constexpr size_t kMany = 10'000;
  for (size_t count = 1; count <= kMany; ++count) {
    table.add({.count = count});
    ASSERT_TRUE(table.find({.count = count})) << count;
  }
  size_t found = 0;
  for (size_t count = 1; count <= kMany; ++count) found += table.find({.count = count}) != nullptr;
  EXPECT_LE(found, 128u);
  EXPECT_GE(found, 64u);
}

TEST_F(Prepared, WhatIsFoundForOneRankOnlyChangesNothing) {
  onEveryRank(kRanks, [&](int rank) {
    for (int round = 0; round < 3; ++round)
      for (size_t count = 1; count <= 16; ++count) {
        Sum sum(rank, count, static_cast<float>(round));
        // A call that only rank 0 makes, and alone: it moves nothing.
        Call nothing = sum.call;
        nothing.count = 0;
        for (int i = 0; rank == 0 && i < kCollectives * kDataTypes * 4; ++i) {  // more than the table holds
          nothing.collective = static_cast<Collective>(i % kCollectives);
          nothing.type = static_cast<DataType>(i / kCollectives % kDataTypes);
          nothing.op = static_cast<RedOp>(i / kCollectives / kDataTypes);
          ASSERT_TRUE(comm(rank).run(nothing).ok());
        }
        const Status status = comm(rank).run(sum.call);
        ASSERT_TRUE(status.ok()) << status.toString();
        EXPECT_EQ(sum.output[count - 1], static_cast<float>(2 * round + 1));
        EXPECT_EQ(sum.output[15], count < 16 ? 0.0f : static_cast<float>(2 * round + 1)) << "wrote too much";
      }
  });
}

TEST_F(Prepared, WhatIsWrongWithARepeatedCallIsFoundAndSendsNothing) {
  onEveryRank(kRanks, [&](int rank) {
    Sum sum(rank);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(comm(rank).run(sum.call).ok());
    Call wrong = sum.call;
    wrong.output = reinterpret_cast<std::byte*>(sum.input.data() + 1);
    EXPECT_EQ(comm(rank).run(wrong).code(), Code::kInvalidArgument) << "overlaps";
    wrong.output = nullptr;
    EXPECT_EQ(comm(rank).run(wrong).code(), Code::kInvalidArgument) << "is missing";
    wrong = sum.call;
    wrong.type = static_cast<DataType>(99);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(comm(rank).run(wrong).code(), Code::kInvalidArgument);
    wrong = sum.call;
    wrong.count = SIZE_MAX / 2;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(comm(rank).run(wrong).code(), Code::kInvalidArgument);
    ASSERT_TRUE(comm(rank).run(sum.call).ok()) << "and none of those was a call";
    EXPECT_EQ(sum.output[1], 3.0f);
  });
}

TEST_F(Prepared, AnotherTableForgetsWhatWasFound) {
  onEveryRank(kRanks, [&](int rank) {
    Sum sum(rank);
    for (const char* algorithm : {"ring", "direct", "doubling"}) {
      Choices choices = comm(rank).choices();
      choices.table = SelectionTable::only(*findAlgorithm(algorithm));
      comm(rank).choose(std::move(choices));
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(comm(rank).run(sum.call).ok());
        EXPECT_EQ(sum.output[1], 3.0f);
      }
      EXPECT_EQ(
          comm(rank).selector()->select(sum.call.collective, totalBytes(sum.call, kRanks)).algorithm->name,
          std::string(algorithm));
    }
  });
}

TEST_F(Prepared, ScalarsOfTheCallerAreReadAnewForEachCall) {
  onEveryRank(kRanks, [&](int rank) {
    Sum sum(rank);
    float factor = 0;
    sum.call.op = RedOp::kPreMulSum;
    sum.call.factor_at = &factor;
    for (int i = 0; i < 4; ++i) {
      factor = static_cast<float>(i);
      ASSERT_TRUE(comm(rank).run(sum.call).ok());
      EXPECT_EQ(sum.output[1], 3.0f * factor);
    }
  });
}

}  // namespace
}  // namespace horing
