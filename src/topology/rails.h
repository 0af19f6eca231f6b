#pragma once
// Which NICs each member of a group sends to other machines through.
#include <cstdint>
#include <span>
#include <vector>

#include "topology/machine_graph.h"

namespace horing {

struct Rail {
  std::vector<int32_t> nics;        // nodes; empty: the machine has none
  double gbytes_per_s = 0;          // of all of them, as far as they are this member's; 0: nobody said
  PathKind path = PathKind::kSame;  // to the first
  bool operator==(const Rail&) const = default;
};

// One for each member. All rails move in step, so that their narrowest counts: every member begins with the NIC nearest
// to it (of equals the one that fewest chose), and members change over, one by one, as long as that makes the narrowest
// rail wider, or all of them together and none narrower. NICs that are left then go to the nearest member, unless they are less than
// half as fast as the one that it has, because a message is cut into equal parts. Counted, not timed: all ranks find the same.
std::vector<Rail> assignRails(const MachineGraph& graph, std::span<const int32_t> members);

}  // namespace horing
