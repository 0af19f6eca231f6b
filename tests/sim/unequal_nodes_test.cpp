// Nodes that differ in ranks and in the speed of their links.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../sanitizer.h"
#include "selection/prediction.h"

namespace horing {
namespace {

Question questionOf(const char* algorithm, Collective collective, uint64_t bytes) {
  Question question;
  question.algorithm = algorithm;
  question.collective = collective;
  question.bytes = bytes;
  question.machine.between = {5, 12.5, 0, 0, 0};
  return question;
}

Prediction predictionOf(const Question& question) {
  Result<Prediction> prediction = predict(question, Record::kNothing);
  EXPECT_TRUE(prediction.ok()) << prediction.status().message();
  return prediction.ok() ? prediction.take() : Prediction();
}

// A rank of the smallest node carries the most: all-gather all but its node's share, all-reduce twice (M-1)/M of the vector.
TEST(UnequalNodes, TakeTheFairShareOfTheirAdapters) {
  constexpr uint64_t kBytes = 64 << 20;
  for (const std::vector<int32_t>& sizes :
       {std::vector<int32_t>{4, 3}, {5, 2, 1}, {8, 7}, {4, 4, 1}, {2, 2, 2, 1}})
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
      Question question = questionOf("ho_ring", collective, kBytes);
      question.machine.between.gbytes_per_s = 1;
      question.machine.setNodes(sizes);
      const double ranks = question.machine.ranks(), nodes = question.machine.nodes, least = sizes.back();
      const double bytes =
          static_cast<double>(kBytes) *
          (collective == Collective::kAllReduce ? 2 * (nodes - 1) / nodes : 1 - least / ranks);
      const double fair_ps = bytes / least * 1000;
      const Prediction found = predictionOf(question);
      EXPECT_LE(static_cast<double>(found.result.time), 1.06 * fair_ps)
          << nodes << " nodes, " << collectiveName(collective);
      EXPECT_GE(found.result.time, found.bound);
    }
}

// Nodes without a slow adapter are as fast as they were: one shape, both ways of describing it.
TEST(UnequalNodes, AreSimulatedLikeEqualOnesWhereTheyAreEqual) {
  Question question = questionOf("ho_ring", Collective::kAllReduce, 1 << 20);
  question.machine.setNodes(std::vector<int32_t>{2, 2, 2});
  question.ranks = Ranks::kAll;
  const Picoseconds time = predictionOf(question).result.time;
  question.machine.link_parts = {{}, {}, {}};
  EXPECT_EQ(predictionOf(question).result.time, time);
}

struct Slow {
  int32_t nodes, slow;
  uint64_t bytes;
};

constexpr uint64_t kMiB = 1 << 20;
constexpr Slow kSlow[] = {{4, 1, 64 * kMiB},  {16, 1, 64 * kMiB}, {16, 4, 256 * kMiB},
                          {32, 1, 64 * kMiB}, {32, 4, 64 * kMiB}, {32, 16, 64 * kMiB}};

TEST(SlowNodes, HoldUpAnAllReduceNoMoreThanTheyMust) {
  for (const auto& [nodes, slow, bytes] : test::firstUnderSanitizer(2, kSlow))
    for (const double part : {0.9, 0.5, 0.25}) {
      Question question = questionOf("ho_shares", Collective::kAllReduce, bytes);
      question.machine.setNodes(std::vector<int32_t>(static_cast<size_t>(nodes), 1));
      std::vector<double> rates(static_cast<size_t>(nodes), 12.5);
      std::fill_n(rates.begin(), slow, 12.5 * part);
      question.machine.setRates(rates);
      const double over = predictionOf(question).overBound();
      EXPECT_LE(over, 1.10) << slow << " of " << nodes << " nodes at " << part;
      EXPECT_GE(over, 1);
    }
}

// Rows of one slot and more: they are cut into slices, of which some are reduced while others are on their way.
TEST(SlowNodes, HoldUpAnAllReduceLessThanARingWhereRowsAreSmall) {
  for (const int32_t nodes : {8, 16, 32})
    for (const double part : {0.8, 0.5}) {
      const auto timeOf = [&](const char* algorithm) {
        Question question = questionOf(algorithm, Collective::kAllReduce, static_cast<uint64_t>(nodes) << 17);
        question.machine.setNodes(std::vector<int32_t>(static_cast<size_t>(nodes), 1));
        std::vector<double> rates(static_cast<size_t>(nodes), 12.5);
        rates.front() *= part;
        question.machine.setRates(rates);
        return static_cast<double>(predictionOf(question).result.time);
      };
      EXPECT_LE(timeOf("ho_shares"), (part == 0.8 ? 1.0 : 0.75) * timeOf("ho_ring")) << nodes << ", " << part;
    }
}

// A node that reduces nothing gets results while it still sends: so its links are busy in both directions from beginning to end.
TEST(SlowNodes, ThatReduceNothingSendAndReceiveAtOnce) {
  for (const int32_t nodes : {4, 8}) {
    Question question = questionOf("ho_shares", Collective::kAllReduce, 16 << 20);
    question.machine.setNodes(std::vector<int32_t>(static_cast<size_t>(nodes), 1));
    std::vector<double> rates(static_cast<size_t>(nodes), 0.125);
    rates.back() = 0.0625;
    question.machine.setRates(rates);
    const Prediction found = predictionOf(question);
    EXPECT_LE(found.overBound(), 1.08) << nodes << " nodes";
    EXPECT_EQ(found.result.window, 1);
  }
}

// `binomial` on nodes of one rank is the tree of `ho_binomial` by number: there node 4 sends the vector on twice. A chain takes as long either
// way, since the slow node has to receive the vector, but by number its successors wait for it.
TEST(SlowNodes, AreLeavesOfTrees) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    const auto timeOf = [&](const char* algorithm) {
      Question question = questionOf(algorithm, collective, 64 << 20);
      question.machine.setNodes(std::vector<int32_t>(8, 1));
      question.machine.setRates(std::vector<double>{12.5, 12.5, 12.5, 12.5, 3.125, 12.5, 12.5, 12.5});
      return static_cast<double>(predictionOf(question).result.time);
    };
    constexpr double kLeastPs = (64 << 20) / 3.125 * 1000;
    EXPECT_GE(timeOf("binomial"), 1.9 * kLeastPs) << collectiveName(collective);
    EXPECT_LE(timeOf("ho_binomial"), 1.1 * kLeastPs) << collectiveName(collective);
    EXPECT_LE(timeOf("ho_chain"), 1.1 * kLeastPs) << collectiveName(collective);
  }
}

}  // namespace
}  // namespace horing
