#pragma once
// Lays a ring through the members of a group that live in one machine.
//
// A *hop* is two members that follow each other in the ring, whose last member is followed by the first. A ring is better
// the wider its narrowest hop; then the wider its hops in all; then the fewer edges of the tree they cross. Members in
// the order of the tree (one NUMA node after the other, one switch after the other) are the ring to beat: such a ring
// crosses every edge of the tree once each way. Direct links may allow a better one: backtracking looks for a ring that
// uses only hops of at least some width, for each width, and swaps then improve it.
//
// All is counted, nothing is timed, and widths are whole numbers (MB/s), so that every rank finds the same ring.
#include <cstdint>
#include <span>
#include <vector>

#include "topology/machine_graph.h"

namespace horing {

// More members are laid in the order of the tree.
inline constexpr size_t kMaxSearchedMembers = 64;
inline constexpr int kMaxBacktrackingSteps = 1 << 15;  // for each width
inline constexpr int kMaxWidths = 32;
inline constexpr int kMaxSwaps = 4096;
inline constexpr int64_t kMaxRingSteps = int64_t{kMaxWidths} * kMaxBacktrackingSteps + kMaxSwaps;

struct Ring {
  std::vector<int32_t> order;  // indices into `members`; begins with the first in the order of the tree
  double gbytes_per_s = 0;     // of the narrowest hop; 0: nobody said, or there is no hop
  PathKind worst = PathKind::kSame;
  int64_t steps = 0;  // that the search took: members and swaps tried
  bool operator==(const Ring&) const = default;
};

// `members` are nodes of the graph (GPUs, or the NUMA nodes that ranks are bound to); several may be in one place, and
// keep their order then. No more than kMaxRingSteps, of a microsecond or less at 16 members.
Ring searchRing(const MachineGraph& graph, std::span<const int32_t> members);

}  // namespace horing
