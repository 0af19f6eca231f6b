#include "topology/group_map.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

GroupMap mapOf(const std::vector<std::string>& labels) {
  Result<GroupMap> map = GroupMap::fromLabels(labels);
  EXPECT_TRUE(map.ok()) << map.status().toString();
  return map.take();
}

std::vector<int> membersOf(const GroupMap& map, int group) {
  return {map.members(group).begin(), map.members(group).end()};
}

// What must hold for every map: the three numberings agree.
void expectConsistent(const GroupMap& map) {
  int position = 0;
  for (int group = 0; group < map.groups(); ++group) {
    for (int local = 0; local < map.groupSize(group); ++local, ++position) {
      const int rank = map.members(group)[static_cast<size_t>(local)];
      EXPECT_EQ(map.groupOf(rank), group);
      EXPECT_EQ(map.localIndexOf(rank), local);
      EXPECT_EQ(map.rankOfPosition(position), rank);
      EXPECT_EQ(map.positionOfRank(rank), position);
    }
  }
  EXPECT_EQ(position, map.ranks());
}

TEST(GroupMap, OfOneRankIsOneGroup) {
  const GroupMap map = mapOf({"a"});
  EXPECT_EQ(map.ranks(), 1);
  EXPECT_EQ(map.groups(), 1);
  EXPECT_TRUE(map.uniform());
  expectConsistent(map);
}

TEST(GroupMap, NeedsARank) {
  EXPECT_EQ(GroupMap::fromLabels({}).status().code(), Code::kInvalidArgument);
}

TEST(GroupMap, KeepsBlocksInPlace) {
  const GroupMap map = GroupMap::blocks(3, 4);
  EXPECT_EQ(map.groups(), 3);
  EXPECT_TRUE(map.uniform());
  for (int rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(map.positionOfRank(rank), rank);
    EXPECT_EQ(map.groupOf(rank), rank / 4);
  }
  expectConsistent(map);
}

TEST(GroupMap, LaysCyclicPlacementOutByGroup) {
  const GroupMap map = mapOf({"a", "b", "a", "b", "a", "b"});
  EXPECT_EQ(membersOf(map, 0), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(membersOf(map, 1), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(map.positionOfRank(1), 3);
  EXPECT_EQ(map.rankOfPosition(1), 2);
  expectConsistent(map);
}

TEST(GroupMap, NumbersGroupsByTheirLowestRankNotByName) {
  const GroupMap map = mapOf({"z", "a", "m", "a", "z"});
  EXPECT_EQ(membersOf(map, 0), (std::vector<int>{0, 4}));
  EXPECT_EQ(membersOf(map, 1), (std::vector<int>{1, 3}));
  EXPECT_EQ(membersOf(map, 2), (std::vector<int>{2}));
  expectConsistent(map);
}

TEST(GroupMap, LaysMembersByPrecedence) {
  const std::vector<std::string> labels = {"a", "b", "a", "b", "a"};
  const std::vector<int32_t> precedence = {4, 3, 2, 1, 0};
  const GroupMap map = GroupMap::fromLabels(labels, precedence).take();
  EXPECT_EQ(membersOf(map, 0), (std::vector<int>{4, 2, 0}));
  EXPECT_EQ(membersOf(map, 1), (std::vector<int>{3, 1}));
  expectConsistent(map);
}

TEST(GroupMap, LaysGroupsUnderOneSwitchOneAfterTheOther) {
  const std::vector<std::string> nodes = {"a", "b", "c", "d", "e", "a", "b"};
  const std::vector<std::string> switches = {"top/s1/l1", "top/s2/l3", "top/s1/l2", "",
                                             "top/s1/l1", "top/s2/l3", "x"};
  const GroupMap map = GroupMap::fromLabels(nodes, {}, switches).take();
  std::vector<int> firsts;
  for (int group = 0; group < map.groups(); ++group) firsts.push_back(map.members(group)[0]);
  EXPECT_EQ(firsts, (std::vector<int>{0, 4, 2, 1, 3}));
  EXPECT_EQ(map.groupOf(6), 3);
  EXPECT_EQ(map.positionOfRank(5), 1);
  const std::vector<std::string> unknown(nodes.size());
  EXPECT_EQ(GroupMap::fromLabels(nodes, {}, unknown).take(), GroupMap::fromLabels(nodes).take());
}

TEST(GroupMap, KnowsUnequalGroups) {
  const GroupMap map = mapOf({"a", "a", "b", "a"});
  EXPECT_FALSE(map.uniform());
  EXPECT_EQ(map.smallestGroup(), 1);
  EXPECT_EQ(map.largestGroup(), 3);
  expectConsistent(map);
}

TEST(GroupMap, EveryRankAloneIsAllGroupsOfOne) {
  const GroupMap map = mapOf({"a", "b", "c", "d", "e"});
  EXPECT_EQ(map.groups(), 5);
  EXPECT_TRUE(map.uniform());
  EXPECT_EQ(map.largestGroup(), 1);
  expectConsistent(map);
}

TEST(GroupMap, ComparesAndDescribes) {
  EXPECT_EQ(GroupMap::blocks(2, 2), mapOf({"x", "x", "y", "y"}));
  EXPECT_NE(GroupMap::blocks(2, 2), mapOf({"x", "y", "x", "y"}));
  EXPECT_EQ(mapOf({"x", "y", "x", "y"}).describe(), "2 groups of 2: {0 2} {1 3}");
  EXPECT_EQ(mapOf({"x", "y", "x"}).describe(), "2 groups of 1 to 2: {0 2} {1}");
  EXPECT_NE(GroupMap::blocks(100, 100).describe().find("..."), std::string::npos);
}

}  // namespace
}  // namespace horing
