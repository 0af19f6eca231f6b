// Trees for broadcast and reduce: the whole vector goes from each rank to its children, slice by slice, or from each to its parent, which
// folds its children's values in order, and its own share last.
//
// Distances are counted from the root, modulo the size n of the line; for a reduction backwards.
//   chain:    d has the child d+1. n-1 hops; D bytes over each link, sent once by every rank: for large vectors.
//   binomial: d has the children d+1, d+2, d+4, ..., as far as they are below the lowest bit set in d. log2 n hops; the
//             root sends D log2 n bytes: for small vectors.
// The ho_ forms have one tree over the groups, of one rank of each, and from each of these ranks a tree inside its group: D bytes enter each
// group but the root's, the least possible, in the hops of both trees. A flat chain enters these groups once, too, since positions are laid
// out group by group, but also the root's group, unless the root is its first rank.
//
// Where the links of groups differ in speed, the ho_ forms give the groups with the fastest links the places with the largest subtrees, and
// those with the slowest the places of leaves, which hand nothing on: the end of a chain, odd distances of a binomial tree.
#include <algorithm>
#include <numeric>
#include <span>

#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {

enum class Tree { kChain, kBinomial };

// A rank's place in the tree; positions.
struct Node {
  int32_t parent = -1;
  std::vector<int32_t> children;  // from the innermost level outwards, each level by increasing distance
};

int32_t parentOf(Tree tree, int32_t distance) {
  return tree == Tree::kChain ? distance - 1 : distance & (distance - 1);
}

std::vector<int32_t> childrenOf(Tree tree, int32_t distance, int32_t n) {
  if (tree == Tree::kChain) return distance + 1 < n ? std::vector{distance + 1} : std::vector<int32_t>();
  std::vector<int32_t> children;
  const int32_t lowest = distance & -distance;
  for (int32_t bit = 1; (distance == 0 || bit < lowest) && distance + bit < n; bit *= 2)
    children.push_back(distance + bit);
  return children;
}

// Ranks of the subtree that begins at a distance.
int32_t subtreeAt(Tree tree, int32_t distance, int32_t n) {
  return tree == Tree::kChain ? n - distance : std::min(distance & -distance, n - distance);
}

// The indexes 0 to n-1, or groups, by their distance from `first`.
class Places {
 public:
  Places(int32_t n, int32_t first, int32_t direction) : n_(n), first_(first), direction_(direction) {}
  // Of groups: those that come first in `by_speed` have the largest subtrees.
  Places(Tree tree, int32_t first, std::span<const int32_t> by_speed)
      : n_(static_cast<int32_t>(by_speed.size())) {
    std::vector<int32_t> distances(by_speed.size() - 1);
    std::iota(distances.begin(), distances.end(), 1);
    std::stable_sort(distances.begin(), distances.end(), [&](int32_t one, int32_t other) {
      return subtreeAt(tree, one, n_) > subtreeAt(tree, other, n_);
    });
    at_.resize(by_speed.size(), first);
    auto next = distances.begin();
    for (const int32_t group : by_speed)
      if (group != first) at_[static_cast<size_t>(*next++)] = group;
  }

  int32_t size() const { return n_; }
  int32_t indexAt(int32_t distance) const {
    return at_.empty() ? ((first_ + direction_ * distance) % n_ + n_) % n_
                       : at_[static_cast<size_t>(distance)];
  }
  int32_t distanceOf(int32_t index) const {
    if (at_.empty()) return (direction_ * (index - first_) + n_) % n_;
    return static_cast<int32_t>(std::find(at_.begin(), at_.end(), index) - at_.begin());
  }

 private:
  int32_t n_;
  int32_t first_ = 0, direction_ = 1;
  std::vector<int32_t> at_;  // by distance; empty: one after the other
};

// A rank's parent and children in the tree inside its group and, if it is its group's first rank there, in the tree over the groups.
class Nodes {
 public:
  Nodes(Tree tree, const Shape& shape, int32_t root, int32_t direction)
      : tree_(tree),
        shape_(shape),
        direction_(direction),
        root_group_(shape.groupOf(root)),
        root_member_(root - shape.firstOf(root_group_)) {}

  Node at(int32_t position) const {
    Node node;
    const int32_t group = shape_.groupOf(position), first = shape_.firstOf(group);
    const Places members(shape_.sizeOf(group), headOf(group) - first, direction_);
    join(node, members, position - first, [&](int32_t member) { return first + member; });
    if (node.parent >= 0) return node;
    const Places groups = shape_.by_speed.empty() ? Places(shape_.groups, root_group_, direction_)
                                                  : Places(tree_, root_group_, shape_.by_speed);
    join(node, groups, group, [&](int32_t other) { return headOf(other); });
    return node;
  }

 private:
  // The rank that takes part in the tree over the groups: the one with the root's local index, counted round in smaller groups.
  int32_t headOf(int32_t group) const { return shape_.firstOf(group) + root_member_ % shape_.sizeOf(group); }

  template <typename PositionOf>
  void join(Node& node, const Places& places, int32_t index, PositionOf position_of) const {
    const int32_t distance = places.distanceOf(index);
    for (const int32_t child : childrenOf(tree_, distance, places.size()))
      node.children.push_back(position_of(places.indexAt(child)));
    if (distance != 0) node.parent = position_of(places.indexAt(parentOf(tree_, distance)));
  }

  const Tree tree_;
  const Shape& shape_;
  const int32_t direction_, root_group_, root_member_;
};

// Sends to the outermost and largest subtrees first.
Lane spread(const Node& node) {
  LaneBuilder lane;
  StepBuilder first = lane.at(0);
  node.parent < 0 ? first.read(kInput) : first.recv(node.parent);
  first.keep(kOutput);
  if (!node.children.empty()) first.send(node.children.back());
  for (size_t child = node.children.size(); child-- > 1;)
    lane.at(0).read(kOutput).send(node.children[child - 1]);
  return lane.build();
}

Lane collect(const Node& node) {
  LaneBuilder lane;
  StepBuilder step = lane.at(0);
  for (const int32_t child : node.children) step.recv(child);
  step.fold(kInput);
  node.parent < 0 ? step.complete().keep(kOutput) : step.send(node.parent);
  return lane.build();
}

Schedule treeOf(Tree tree, Collective collective, const Shape& shape, int32_t position, int32_t root) {
  const bool spreads = collective == Collective::kBroadcast;
  const Node node = Nodes(tree, shape, root, spreads ? 1 : -1).at(position);
  return {.grid = {1, 1}, .lanes = {spreads ? spread(node) : collect(node)}};
}

}  // namespace

Schedule buildChain(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  return treeOf(Tree::kChain, collective, {1, shape.ranks()}, position, root);
}

Schedule buildBinomial(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  return treeOf(Tree::kBinomial, collective, {1, shape.ranks()}, position, root);
}

Schedule buildHoChain(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  return treeOf(Tree::kChain, collective, shape, position, root);
}

Schedule buildHoBinomial(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  return treeOf(Tree::kBinomial, collective, shape, position, root);
}

}  // namespace horing
