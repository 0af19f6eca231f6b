// Trees over groups whose links differ in speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../schedule/build_all.h"
#include "proven.h"

namespace horing {
namespace {

constexpr const char* kTrees[] = {"ho_chain", "ho_binomial"};
constexpr Collective kBothWays[] = {Collective::kBroadcast, Collective::kReduce};

std::vector<int32_t> numbers(int32_t groups) {
  std::vector<int32_t> all(static_cast<size_t>(groups));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// How often ranks of this group hand something to another group that is not the root's own.
int32_t handsOn(const std::vector<Schedule>& all, const Shape& shape, int32_t group) {
  int32_t times = 0;
  for (const Schedule& schedule : all)
    for (const Lane& lane : schedule.lanes) {
      const bool spreads = schedule.collective == Collective::kBroadcast;
      for (const int32_t peer : spreads ? sendPeers(lane) : recvPeers(lane))
        times += schedule.position / shape.members == group && peer / shape.members != group;
    }
  return times;
}

TEST(TreesOverGroups, AreProvenInEveryOrder) {
  for (int32_t groups = 1; groups <= 5; ++groups)
    for (int32_t members = 1; members <= 3; ++members) {
      Shape shape{groups, members};
      shape.by_speed = numbers(groups);
      do {
        for (const char* tree : kTrees)
          for (const Collective collective : kBothWays)
            for (const int32_t root : rootsOf(collective, shape.ranks()))
              ASSERT_NO_FATAL_FAILURE(expectAllProven(buildAll(tree, collective, shape, root)))
                  << tree << ", " << groups << " x " << members << ", root " << root;
      } while (std::next_permutation(shape.by_speed.begin(), shape.by_speed.end()));
    }
}

TEST(TreesOverGroups, AreProvenWhereThereAreMany) {
  std::mt19937 random(1);
  for (const int32_t groups : {5, 7, 8, 13, 16}) {
    Shape shape{groups, 1};
    shape.by_speed = numbers(groups);
    std::shuffle(shape.by_speed.begin(), shape.by_speed.end(), random);
    for (const char* tree : kTrees)
      for (const Collective collective : kBothWays)
        for (const int32_t root : rootsOf(collective, groups))
          ASSERT_NO_FATAL_FAILURE(expectAllProven(buildAll(tree, collective, shape, root)))
              << tree << ", " << groups << " groups, root " << root;
  }
}

// In a binomial tree half of the groups are leaves, in a chain one.
TEST(TreesOverGroups, HaveTheSlowestAtTheirLeaves) {
  for (const int32_t groups : {3, 4, 7, 8})
    for (const char* tree : kTrees)
      for (const Collective collective : kBothWays)
        for (int32_t slowest = 0; slowest < groups; ++slowest)
          for (int32_t root_group = 0; root_group < groups; ++root_group) {
            if (root_group == slowest) continue;
            Shape shape{groups, 2};
            shape.by_speed = numbers(groups);
            std::rotate(shape.by_speed.begin(), shape.by_speed.begin() + slowest + 1, shape.by_speed.end());
            const std::vector<Schedule> all = buildAll(tree, collective, shape, 2 * root_group + 1);
            const int32_t leaves = tree == kTrees[0] ? 1 : groups / 2;
            int32_t without_root = 0;
            for (int32_t i = 0; without_root < leaves; ++i) {
              const int32_t group = shape.by_speed[static_cast<size_t>(groups - 1 - i)];
              if (group == root_group) continue;
              ++without_root;
              EXPECT_EQ(handsOn(all, shape, group), 0)
                  << tree << " of " << groups << ", " << collectiveName(collective) << " from group "
                  << root_group << ", group " << group;
            }
          }
  EXPECT_EQ(handsOn(buildAll("ho_chain", Collective::kBroadcast, {4, 2}), {4, 2}, 2), 1)
      << "by number it does";
}

}  // namespace
}  // namespace horing
