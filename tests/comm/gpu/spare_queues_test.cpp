#include "comm/gpu/spare_queues.h"

#include <gtest/gtest.h>

#include <map>

namespace horing {
namespace {

constexpr cuda::QueueShape kSpareShape{5, 65536};
const size_t kQueue = cuda::queueBytes(kSpareShape);

// To the next rank on one channel.
std::vector<GpuQueueName> ring(int ranks, int32_t channel) {
  std::vector<GpuQueueName> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back({rank, (rank + 1) % ranks, channel, 0});
  return names;
}
std::vector<GpuQueueName> toAll(int ranks) {
  std::vector<GpuQueueName> names;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (from != to) names.push_back({from, to, 0, 0});
  return names;
}

// The pieces of each rank's memory from part `from` on are adjacent, and inside the memory.
void expectApart(const SpareQueues& spare, const std::vector<std::vector<GpuQueueName>>& plans, int32_t from,
                 int32_t to, size_t bytes) {
  std::map<int, std::map<size_t, size_t>> pieces;  // of a rank: from, to
  for (const auto& names : plans)
    for (GpuQueueName name : names)
      for (name.part = from; name.part < to; ++name.part) {
        const SpareQueues::Place& at = spare.placeOf(name);
        EXPECT_TRUE(pieces[name.receiver].emplace(at.receivers, at.receivers + kQueue).second);
        EXPECT_TRUE(pieces[name.sender].emplace(at.senders, at.senders + cuda::kQueueCounterBytes).second);
      }
  for (const auto& [rank, of_rank] : pieces) {
    size_t end = 0;
    for (const auto& [begin, next] : of_rank) {
      EXPECT_EQ(begin % 256, 0U);
      EXPECT_GE(begin, end) << "rank " << rank;
      end = next;
    }
    EXPECT_LE(end, bytes) << "rank " << rank;
  }
}

TEST(SpareQueues, AreAsManyAsFit) {
  const size_t bytes = 10 * (kQueue + cuda::kQueueCounterBytes);
  SpareQueues spare(4, kSpareShape, bytes);
  EXPECT_EQ(spare.take(ring(4, 0), 3, 5), 5);
  EXPECT_EQ(spare.take(ring(4, 1), 3, 100), 3 + 8);
  expectApart(spare, {ring(4, 0), ring(4, 1)}, 3, 5, bytes);
  // Nothing is left; a request of no more than all others have succeeds.
  EXPECT_EQ(spare.take(ring(4, 2), 3, 100), 3);
  EXPECT_EQ(spare.take(ring(4, 2), 3, 3), 3);
}

TEST(SpareQueues, OfOnePlanServeAnother) {
  SpareQueues spare(3, kSpareShape, 4 * (kQueue + cuda::kQueueCounterBytes));
  EXPECT_EQ(spare.take(ring(3, 0), 2, 6), 6);
  const size_t before = spare.placeOf({1, 2, 0, 5}).receivers;
  EXPECT_EQ(spare.take(ring(3, 0), 2, 9), 6);
  EXPECT_EQ(spare.placeOf({1, 2, 0, 5}).receivers, before);
}

TEST(SpareQueues, GoBackTogether) {
  SpareQueues spare(4, kSpareShape, 6 * (kQueue + cuda::kQueueCounterBytes));
  EXPECT_EQ(spare.take(ring(4, 0), 1, 2), 2);
  spare.keep();
  // Two queues of each rank, and three.
  EXPECT_EQ(spare.take(toAll(4), 1, 9), 3);
  EXPECT_EQ(spare.take(ring(4, 1), 1, 9), 1);
  spare.giveBack();
  // Except for the kept parts, everything is available again.
  EXPECT_EQ(spare.take(ring(4, 1), 1, 9), 1 + 5);
  expectApart(spare, {ring(4, 0)}, 1, 2, SIZE_MAX);
}

// Of two nodes of two ranks: hosts carry every second queue, and these take nothing of a GPU.
TEST(SpareQueues, OfHostsAreAsManyAsTheyHaveEnds) {
  const size_t bytes = 10 * (kQueue + cuda::kQueueCounterBytes);
  const auto spare = [&](size_t ends) { return SpareQueues({0, 0, 1, 1}, kSpareShape, bytes, ends); };
  SpareQueues of_hosts = spare(3);
  EXPECT_EQ(of_hosts.take(ring(4, 0), 4, 100), 4 + 3);
  // Returned parts are available again; the others serve the next plan, too.
  of_hosts.giveBack();
  EXPECT_EQ(of_hosts.take(ring(4, 1), 4, 5), 5);
  of_hosts.keep();
  EXPECT_EQ(of_hosts.take(ring(4, 1), 4, 100), 4 + 3);
  // The GPU has less: each has a queue, or the counter of one.
  EXPECT_EQ(spare(30).take(ring(4, 0), 4, 100), 4 + 10);
  EXPECT_TRUE(of_hosts.joinsNodes({1, 2, 0, 0}) && !of_hosts.joinsNodes({2, 3, 0, 0}));
}

// More blocks are no use to what hosts alone carry.
TEST(SpareQueues, AreNotForWhatLiesBetweenNodes) {
  SpareQueues spare({0, 1, 2, 3}, kSpareShape, 10 * kQueue, 100);
  EXPECT_EQ(spare.take(ring(4, 0), 4, 100), 4);
}

TEST(SpareQueues, AreNone) {
  SpareQueues none;
  EXPECT_FALSE(none.areAny());
  EXPECT_EQ(none.take(ring(4, 0), 3, 8), 3);
}

}  // namespace
}  // namespace horing
