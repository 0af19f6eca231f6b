#pragma once
// Tells sets of links apart that explain nearly the same. If two of three groups of nodes are behind slow links, all pairs between the
// groups are slow, which any two of the three would explain; two uplinks of two nodes look much like one of the four. A pair moves what the
// most crowded of its links lets it, so that rounds in which more pairs cross one than another tell which links there are. Pure.
#include <cstddef>
#include <vector>

namespace horing::check {

using NodeGroup = std::vector<int>;  // in ascending order

// Two nodes that met in a round.
struct PairRate {
  size_t round;
  int one, other;
  bool is_slow;
  double rate;  // of what both nodes can reach
};

struct LikelyLink {
  NodeGroup nodes;
  // The logarithm by which the figures are more likely than with the likeliest of the sets that lack this link.
  double lead = 0;
};

// The likeliest of these sets of disjoint groups, each behind a link of its own, or one that is likelier by single nodes. A link is busy
// if more pairs cross it than would move what it carries, by the factor `as_busy`.
std::vector<LikelyLink> likeliestLinks(int nodes, const std::vector<PairRate>& pairs,
                                       const std::vector<std::vector<NodeGroup>>& sets, double as_busy);

}  // namespace horing::check
