// Trees for broadcast and reduce: the whole vector goes from each rank to its children, slice by slice, or from each to its parent, which
// folds its children's values in order, and its own share last.
//
// Distances are counted from the root, modulo the size n of the line; for a reduction backwards.
//   chain:    d has the child d+1. n-1 hops; D bytes over each link, sent once by every rank: for large vectors.
//   binomial: d has the children d+1, d+2, d+4, ..., as far as they are below the lowest bit set in d. log2 n hops; the
//             root sends D log2 n bytes: for small vectors.
// The ho_ forms have one tree over the groups, of the ranks with the root's local index, and from each of these ranks a tree inside its
// group: D bytes enter each group, the least possible, in the hops of both trees. A flat chain enters each group once, too, since positions
// are laid out group by group, but the root's group twice.
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

// `sizes` from the innermost level outwards, `by_speed` of the outermost; empty: by number. A rank takes part in a level if it has the root's
// index in all inner levels.
Node nodeAt(Tree tree, std::span<const int32_t> sizes, std::span<const int32_t> by_speed, int32_t position,
            int32_t root, int32_t direction) {
  Node node;
  int32_t stride = 1;
  for (size_t level = 0; level < sizes.size(); ++level) {
    const int32_t n = sizes[level];
    const int32_t me = position / stride % n, first = root / stride % n;
    const bool is_ordered = level + 1 == sizes.size() && !by_speed.empty();
    const Places places = is_ordered ? Places(tree, first, by_speed) : Places(n, first, direction);
    const auto positionOf = [&](int32_t distance) {
      return position + (places.indexAt(distance) - me) * stride;
    };
    const int32_t distance = places.distanceOf(me);
    for (const int32_t child : childrenOf(tree, distance, n)) node.children.push_back(positionOf(child));
    if (distance != 0) {
      node.parent = positionOf(parentOf(tree, distance));
      break;
    }
    stride *= n;
  }
  return node;
}

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

Schedule treeOf(Tree tree, Collective collective, std::span<const int32_t> sizes, int32_t position,
                int32_t root, std::span<const int32_t> by_speed = {}) {
  const bool spreads = collective == Collective::kBroadcast;
  const Node node = nodeAt(tree, sizes, by_speed, position, root, spreads ? 1 : -1);
  return {.grid = {1, 1}, .lanes = {spreads ? spread(node) : collect(node)}};
}

}  // namespace

Schedule buildChain(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  const int32_t sizes[] = {shape.ranks()};
  return treeOf(Tree::kChain, collective, sizes, position, root);
}

Schedule buildBinomial(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  const int32_t sizes[] = {shape.ranks()};
  return treeOf(Tree::kBinomial, collective, sizes, position, root);
}

Schedule buildHoChain(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  const int32_t sizes[] = {shape.members, shape.groups};
  return treeOf(Tree::kChain, collective, sizes, position, root, shape.by_speed);
}

Schedule buildHoBinomial(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  const int32_t sizes[] = {shape.members, shape.groups};
  return treeOf(Tree::kBinomial, collective, sizes, position, root, shape.by_speed);
}

}  // namespace horing
