// Trees over groups that differ in size, or in the speed of their links.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../schedule/build_all.h"
#include "proven.h"
#include "unequal_groups.h"

namespace horing {
namespace {

constexpr const char* kTrees[] = {"ho_chain", "ho_binomial"};
constexpr Collective kBothWays[] = {Collective::kBroadcast, Collective::kReduce};

std::vector<int32_t> numbers(int32_t groups) {
  std::vector<int32_t> all(static_cast<size_t>(groups));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// How often ranks of this group send the vector to other groups in a broadcast, or receive it from them in a reduction.
int32_t handsOn(const std::vector<Schedule>& all, const Shape& shape, int32_t group) {
  int32_t times = 0;
  for (const Schedule& schedule : all)
    for (const Lane& lane : schedule.lanes) {
      const bool spreads = schedule.collective == Collective::kBroadcast;
      for (const int32_t peer : spreads ? sendPeers(lane) : recvPeers(lane))
        times += shape.groupOf(schedule.position) == group && shape.groupOf(peer) != group;
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

// How often the vector enters this group in a broadcast, or leaves it in a reduction.
int32_t crossings(const std::vector<Schedule>& all, const Shape& shape, int32_t group) {
  int32_t times = 0;
  for (const Schedule& schedule : all)
    for (const Lane& lane : schedule.lanes) {
      const bool spreads = schedule.collective == Collective::kBroadcast;
      for (const int32_t peer : spreads ? recvPeers(lane) : sendPeers(lane))
        times += shape.groupOf(schedule.position) == group && shape.groupOf(peer) != group;
    }
  return times;
}

// From every root; with groups of one size, which catalogue_test.cpp proves, every multiset of up to four groups of up to five members.
TEST(TreesOverGroups, OfDifferentSizesAreProvenAndCrossEachLinkOnce) {
  const std::vector<GroupSizes> shapes = unequalGroups(4, 5);
  EXPECT_EQ(shapes.size(), 125u - 4 * 5);
  for (const GroupSizes& sizes : shapes)
    for (const char* tree : kTrees)
      for (const Collective collective : kBothWays) {
        const Shape shape = Shape::of(sizes);
        for (int32_t root = 0; root < shape.ranks(); ++root) {
          SCOPED_TRACE(std::string(tree) + ", " + collectiveName(collective) + " on " + textOf(sizes) +
                       ", root " + std::to_string(root));
          const std::vector<Schedule> all = buildAll(tree, collective, shape, root);
          ASSERT_NO_FATAL_FAILURE(expectAllProven(all));
          for (int32_t group = 0; group < shape.groups; ++group)
            ASSERT_EQ(crossings(all, shape, group), group == shape.groupOf(root) ? 0 : 1)
                << "group " << group;
        }
      }
}

TEST(TreesOverGroups, OfDifferentSizesAndSpeedsAreProvenInEveryOrder) {
  for (GroupSizes sizes : {GroupSizes{1, 3, 2}, {1, 2, 2, 3}}) do {
      Shape shape = Shape::of(sizes);
      shape.by_speed = numbers(shape.groups);
      do {
        for (const char* tree : kTrees)
          for (const Collective collective : kBothWays)
            for (const int32_t root : rootsOf(collective, shape.ranks())) {
              SCOPED_TRACE(std::string(tree) + " on " + textOf(sizes) + ", root " + std::to_string(root));
              const std::vector<Schedule> all = buildAll(tree, collective, shape, root);
              ASSERT_NO_FATAL_FAILURE(expectAllProven(all));
              const int32_t slowest = shape.by_speed.back();
              if (slowest == shape.groupOf(root)) continue;
              ASSERT_EQ(handsOn(all, shape, slowest), 0);
              ASSERT_EQ(crossings(all, shape, slowest), 1);
            }
      } while (std::next_permutation(shape.by_speed.begin(), shape.by_speed.end()));
    } while (std::next_permutation(sizes.begin(), sizes.end()));
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
