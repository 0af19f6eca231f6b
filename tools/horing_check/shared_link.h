#pragma once
// Finds links that are slow only while several pairs of nodes use them at once, such as an oversubscribed uplink, by the rounds in which
// they are. Pure.
//
// The model, of a round: with a probability everything pauses, and nearly all pairs are slow, by about as much in each pause as it happens.
// Else each pair is slow with a small probability, but for the pairs that cross a link which carries less than they would: these are
// nearly all slow, and together move as much as the link carries. The probabilities are those that make the figures most likely, without
// a link and with it. A link is the group of nodes behind it and what it carries; it has to explain the figures so much better as there are
// groups of that size from which it was chosen.
#include <vector>

#include "horing_check/diagnosis.h"

namespace horing::check {

struct SharedLink {
  // On the smaller side, in ascending order; if both are equal, on the side without node 0.
  std::vector<int> nodes;
  bool confirmed = false;
};

// `lacks`: by sample, the logarithm by which the pair was slower, with both nodes sending at once, than both nodes can be. The same in both
// directions. Samples above `threshold` are slow. `groups`: of nodes that may share a link, in ascending order.
// Each link explains what no other does; in the order of their nodes.
std::vector<SharedLink> findSharedLinks(const Figures& figures, const std::vector<double>& lacks,
                                        double threshold, const std::vector<std::vector<int>>& groups);

}  // namespace horing::check
