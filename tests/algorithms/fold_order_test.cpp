// The order in which contributions are folded, against the closed form: it decides the rounding, so it is part of what an
// algorithm promises. The verifier does not judge it.
//   ring, serial_ring, chunk c: positions c+1, ..., c, one after another.
//   ho_ring, chunk (d, j): groups d+1, ..., d, one after another; in each the locals j+1, ..., j, one after another.
//   ho_ring_direct: as ho_ring, but the locals of a group in one pass. direct: c+1, ..., c in one pass.
//   ho_direct, ho_shares: as ho_ring_direct, but the groups in one pass.
//   ho_ordered: locals 0, 1, ... of each group in one pass, then groups 0, 1, ... in one pass.
//   halving_doubling, chunk c: a tree. The share of distance d, in one pass: those of d+1, d+2, d+4, ... (what is below the
//   lowest bit set in d, and below n), then the own one. Distance of position p: p xor c for a power of two, else p - c.
//   ho_halving: in the groups as ho_ring_direct, over the groups this tree.
//   doubling: positions in pairs, pairs in pairs and so on, lower first; those from the largest power of two on as the second
//   of a pair with their partner before that. ho_doubling: so the groups, inside which as in ho_ring_direct.
//   ho_leaders: locals 0, 1, ... of each group in one pass, over the groups as doubling; reduce-scatter: the groups as the tree of
//   ho_halving, but locals 0, 1, ... and the share of distance d+1 in one pass, and then those of d+2, d+4, ... one after another.
//   ho_leaders_split: locals 0, 1, ... of group c and what each other group, c+1, c+2, ..., has folded like that, in one pass.
//   chain, root r: r+1, ..., r, one after another. binomial: at each rank, in one pass, the shares of its children at growing
//   distance, then its own; a child of distance d is d+1, d+2, d+4, ..., below the lowest bit of d. Distance of position p:
//   r - p. ho_chain, ho_binomial: such trees inside the groups, then over those with the root's local index.
//   peer_read, peer_write: as direct. one_shot: 0, ..., n-1 in one pass. star: as direct, the root (in all-reduce the last position) being c.
#include <gtest/gtest.h>

#include <functional>

#include "../schedule/build_all.h"
#include "../schedule/reference_run.h"

namespace horing {
namespace {

std::string oneByOne(const std::vector<std::string>& operands) {
  std::string folded = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) folded = "(" + folded + " " + operands[i] + ")";
  return folded;
}

std::string inOnePass(const std::vector<std::string>& operands) {
  std::string folded = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) folded += " " + operands[i];
  return operands.size() == 1 ? folded : "(" + folded + ")";
}

using Fold = std::function<std::string(const std::vector<std::string>&)>;

// Positions first + (after + 1) % size, ..., first + after.
std::vector<std::string> round(int32_t first, int32_t size, int32_t after) {
  std::vector<std::string> positions;
  for (int32_t i = 1; i <= size; ++i) positions.push_back(std::to_string(first + (after + i) % size));
  return positions;
}

std::string flat(const Shape& shape, int32_t chunk, const Fold& fold) {
  return fold(round(0, shape.ranks(), chunk));
}

// Folds the shares of n members, of which number `owner` has the root.
using ShareOf = std::function<std::string(int32_t)>;
std::string halving(int32_t n, int32_t owner, const ShareOf& share, int32_t distance = 0) {
  const bool is_power_of_two = (n & (n - 1)) == 0;
  std::vector<std::string> shares;
  for (int32_t bit = 1; distance + bit < n && !(distance & bit); bit *= 2)
    shares.push_back(halving(n, owner, share, distance + bit));
  shares.push_back(share(is_power_of_two ? owner ^ distance : (owner + distance) % n));
  return inOnePass(shares);
}

std::string hierarchicalHalving(const Shape& shape, int32_t chunk) {
  return halving(shape.groups, chunk / shape.members, [&](int32_t group) {
    return inOnePass(round(group * shape.members, shape.members, chunk % shape.members));
  });
}

// Members first, ..., first + size - 1 and the partners of theirs beyond `pairs`; pairs and size are powers of two.
std::string doubling(int32_t n, int32_t pairs, const ShareOf& share, int32_t first, int32_t size) {
  if (size == 1) return first + pairs < n ? inOnePass({share(first), share(first + pairs)}) : share(first);
  return inOnePass(
      {doubling(n, pairs, share, first, size / 2), doubling(n, pairs, share, first + size / 2, size / 2)});
}
std::string doubling(int32_t n, const ShareOf& share) {
  int32_t pairs = 1;
  while (2 * pairs <= n) pairs *= 2;
  return doubling(n, pairs, share, 0, pairs);
}

std::string hierarchicalDoubling(const Shape& shape, int32_t chunk) {
  return doubling(shape.groups, [&](int32_t group) {
    return inOnePass(round(group * shape.members, shape.members, chunk));
  });
}

std::string leaders(const Shape& shape) {
  return doubling(shape.groups, [&](int32_t group) {
    return inOnePass(round(group * shape.members, shape.members, shape.members - 1));
  });
}

std::string splittingLeaders(const Shape& shape, int32_t chunk) {
  const auto locals = [&](int32_t group) {
    return round(group * shape.members, shape.members, shape.members - 1);
  };
  std::vector<std::string> operands = locals(chunk);
  for (int32_t i = 1; i < shape.groups; ++i)
    operands.push_back(inOnePass(locals((chunk + i) % shape.groups)));
  return inOnePass(operands);
}

std::string scatteringLeaders(const Shape& shape, int32_t home, int32_t distance = 0) {
  const int32_t n = shape.groups;
  const bool is_power_of_two = (n & (n - 1)) == 0;
  const int32_t group = is_power_of_two ? home ^ distance : (home + distance) % n;
  std::vector<std::string> operands = round(group * shape.members, shape.members, shape.members - 1);
  for (int32_t bit = 1; distance + bit < n && !(distance & bit); bit *= 2) {
    if (bit > 1) operands = {inOnePass(operands)};
    operands.push_back(scatteringLeaders(shape, home, distance + bit));
  }
  return inOnePass(operands);
}

std::string hierarchical(const Shape& shape, int32_t chunk, const Fold& inside,
                         const Fold& between = oneByOne) {
  const int32_t row = chunk / shape.members, column = chunk % shape.members;
  std::vector<std::string> groups;
  for (int32_t i = 1; i <= shape.groups; ++i)
    groups.push_back(inside(round((row + i) % shape.groups * shape.members, shape.members, column)));
  return between(groups);
}

std::string ordered(const Shape& shape) {
  std::vector<std::string> groups;
  for (int32_t g = 0; g < shape.groups; ++g)
    groups.push_back(inOnePass(round(g * shape.members, shape.members, shape.members - 1)));
  return inOnePass(groups);
}

// Trees over distances, which are counted backwards from the root: the children's shares, then the own one.
std::vector<int32_t> childrenAt(bool is_chain, int32_t distance, int32_t n) {
  std::vector<int32_t> children;
  for (int32_t bit = 1; distance + bit < n && !(distance & bit && !is_chain); bit *= 2) {
    children.push_back(distance + bit);
    if (is_chain) break;
  }
  return children;
}

std::string treeInside(const std::string& algorithm, const Shape& shape, int32_t root, int32_t group,
                       int32_t distance);

std::string treeOverGroups(const std::string& algorithm, const Shape& shape, int32_t root, int32_t distance) {
  const int32_t group = (root / shape.members - distance + shape.groups) % shape.groups;
  const bool is_chain = algorithm.ends_with("chain");
  std::vector<std::string> shares;
  for (const int32_t child : childrenAt(is_chain, 0, shape.members))
    shares.push_back(treeInside(algorithm, shape, root, group, child));
  for (const int32_t child : childrenAt(is_chain, distance, shape.groups))
    shares.push_back(treeOverGroups(algorithm, shape, root, child));
  shares.push_back(std::to_string(group * shape.members + root % shape.members));
  return inOnePass(shares);
}

std::string treeInside(const std::string& algorithm, const Shape& shape, int32_t root, int32_t group,
                       int32_t distance) {
  std::vector<std::string> shares;
  for (const int32_t child : childrenAt(algorithm.ends_with("chain"), distance, shape.members))
    shares.push_back(treeInside(algorithm, shape, root, group, child));
  const int32_t local = (root % shape.members - distance + shape.members) % shape.members;
  shares.push_back(std::to_string(group * shape.members + local));
  return inOnePass(shares);
}

std::string expectedOrder(const std::string& algorithm, Collective collective, const Shape& shape,
                          int32_t chunk) {
  if (algorithm == "ring" || algorithm == "serial_ring" || algorithm == "chain")
    return flat(shape, chunk, oneByOne);
  if (algorithm == "direct" || algorithm == "star" || algorithm.starts_with("peer_"))
    return flat(shape, chunk, inOnePass);
  if (algorithm == "one_shot") return flat(shape, shape.ranks() - 1, inOnePass);
  if (algorithm == "ho_ring") return hierarchical(shape, chunk, oneByOne);
  if (algorithm == "ho_ring_direct") return hierarchical(shape, chunk, inOnePass);
  if (algorithm == "ho_direct" || algorithm == "ho_shares")
    return hierarchical(shape, chunk, inOnePass, inOnePass);
  if (algorithm == "ho_ordered") return ordered(shape);
  if (algorithm == "ho_halving") return hierarchicalHalving(shape, chunk);
  if (algorithm == "halving_doubling")
    return halving(shape.ranks(), chunk, [](int32_t position) { return std::to_string(position); });
  if (algorithm == "doubling")
    return doubling(shape.ranks(), [](int32_t position) { return std::to_string(position); });
  if (algorithm == "ho_doubling") return hierarchicalDoubling(shape, chunk);
  if (algorithm == "ho_leaders")
    return collective == Collective::kReduceScatter ? scatteringLeaders(shape, chunk / shape.members)
                                                    : leaders(shape);
  if (algorithm == "ho_leaders_split") return splittingLeaders(shape, chunk);
  if (algorithm == "binomial") return treeOverGroups(algorithm, {1, shape.ranks()}, chunk, 0);
  if (algorithm == "ho_binomial" || algorithm == "ho_chain")
    return treeOverGroups(algorithm, shape, chunk, 0);
  return "no closed form is written for " + algorithm;
}

void expectOrder(const Algorithm& algorithm, Collective collective, const Shape& shape) {
  SCOPED_TRACE(testing::Message() << algorithm.name << " " << collectiveName(collective) << " "
                                  << shape.groups << " x " << shape.members);
  const int32_t root = rootsOf(collective, shape.ranks()).back();
  const std::vector<Schedule> all = buildAll(algorithm.name, collective, shape, root);
  for (InPlace in_place : {InPlace::kNo, InPlace::kYes}) {
    const ReferenceResult result = runReference(all, in_place, static_cast<uint32_t>(shape.ranks()));
    ASSERT_TRUE(result.ended);
    for (int32_t position = 0; position < shape.ranks(); ++position) {
      for (int32_t chunk = 0; chunk < all[0].grid.chunks(); ++chunk) {
        if (!contractOf(all[0]).outputHas(position, chunk)) continue;
        // The position whose share comes last, as a rule: the root's, a centre's, or the chunk's own.
        const bool has_centre = std::string_view(algorithm.name) == "star";
        const int32_t last = hasRoot(collective) ? root : has_centre ? shape.ranks() - 1 : chunk;
        ASSERT_EQ(result.out[static_cast<size_t>(position)][static_cast<size_t>(chunk)],
                  "[" + expectedOrder(algorithm.name, collective, shape, last) + "]")
            << "position " << position << ", chunk " << chunk;
      }
    }
  }
}

TEST(FoldOrder, IsTheClosedFormOfEachAlgorithm) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
      for (int32_t groups = 1; groups <= 6; ++groups)
        for (int32_t members = 1; members <= 6; ++members)
          if (algorithm.has(collective)) expectOrder(algorithm, collective, {groups, members});
}

TEST(FoldOrder, GathersWithoutFolding) {
  for (const Algorithm& algorithm : algorithmCatalogue()) {
    if (!algorithm.has(Collective::kAllGather)) continue;
    const std::vector<Schedule> all = buildAll(algorithm.name, Collective::kAllGather, {2, 3});
    const ReferenceResult result = runReference(all, InPlace::kNo, 1);
    for (size_t position = 0; position < 6; ++position)
      for (size_t chunk = 0; chunk < 6; ++chunk)
        EXPECT_EQ(result.out[position][chunk], std::to_string(chunk));
  }
}

}  // namespace
}  // namespace horing
