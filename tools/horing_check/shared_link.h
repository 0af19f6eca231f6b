#pragma once
// Finds a link between two parts of the cluster by the rounds in which it is slow: one that is slow only while several pairs use it at once,
// as an oversubscribed uplink, so that each node and path reaches its rate when few others cross it; or that of half of the nodes, so that
// no node is slower than most others. Pure.
#include <optional>
#include <vector>

#include "horing_check/diagnosis.h"

namespace horing::check {

struct SharedLink {
  // On the smaller side, in ascending order; if both are equal, on the side without node 0.
  std::vector<int> nodes;
  bool confirmed = false;
};

// `excess`: by sample, the logarithm by which the pair was slower, with both nodes sending at once, than its nodes are with others. The same in
// both directions. Samples above `threshold` are slow.
std::optional<SharedLink> findSharedLink(const Figures& figures, const std::vector<double>& excess,
                                         double threshold);

// Adds nodes to the link's side, and removes some, one by one, as long as that explains more: pairs that cross are slow whenever so many or
// more do. `excess` as before. Other nodes: of other links. For up to kMostToSettle nodes: others have few figures each.
constexpr int kMostToSettle = 64;
void settleMembers(const Figures& figures, const std::vector<double>& excess, double threshold,
                   const std::vector<int>& others, SharedLink& link);

}  // namespace horing::check
