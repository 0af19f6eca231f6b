#pragma once
// Finds a link between two parts of the cluster that is slow only while several pairs use it at once, as an oversubscribed uplink. Each
// node and path reaches its rate when few others cross the link, so diagnosis.h finds nothing that is always slow. Pure.
#include <optional>
#include <vector>

#include "horing_check/diagnosis.h"

namespace horing::check {

struct SharedLink {
  std::vector<int>
      nodes;  // on the smaller side, in ascending order; if both are equal, on the side without node 0
  std::vector<bool> explained;  // by sample: it crossed the link in a round in which that was slow
  bool confirmed = false;
  bool sends = false, receives = false;  // what the nodes send is slowed, or what they receive
};

// `excess`: by sample, the logarithm by which it is slower than its nodes and its path explain. Samples above `threshold` are slow.
std::optional<SharedLink> findSharedLink(const Figures& figures, const std::vector<double>& excess,
                                         double threshold);

}  // namespace horing::check
