#pragma once
// Finds a ring through the members of a group on one machine.
//
// A *hop* joins two consecutive members of the ring (the last and the first, too). It takes a direct link that is as wide as the narrowest
// hop, even if the host is wider there. Rings are compared by the bandwidth of the narrowest hop; then by fewer hops through the host
// (PCIe, memory) if direct links exist; then by the total bandwidth of hops; then by fewer tree edges crossed. The baseline is the members
// in tree order (one NUMA node after the other, one switch after the other), which crosses every edge of the tree once each way. Direct
// links may allow a better ring: for each width, the search looks for a cycle of hops of at least that width, first of direct links alone
// (cycle_search.h), and swaps then improve it.
//
// Limits count steps, not time, and widths are integers (MB/s), so that every rank finds the same ring.
#include <cstdint>
#include <span>
#include <vector>

#include "topology/cycle_search.h"
#include "topology/machine_graph.h"

namespace horing {

// With more members the ring is the tree order.
inline constexpr size_t kMaxSearchedMembers = 128;
inline constexpr int64_t kMaxCycleSteps = 1 << 14;  // for each width, with and without hops through the host
inline constexpr int64_t kMaxAllCycleSteps = 1 << 17;
inline constexpr int kMaxWidths = 32;
inline constexpr int kMaxSwaps = 1 << 15;
inline constexpr int64_t kMaxRingSteps = kMaxAllCycleSteps + kMaxSwaps;

struct Ring {
  std::vector<int32_t> order;  // indices into `members`; begins with the first in tree order
  double gbytes_per_s = 0;     // of the narrowest hop; 0: unknown, or no hop
  PathKind worst = PathKind::kSame;
  int32_t host_hops = 0;  // hops between different places without a direct link
  int64_t steps = 0;      // of the search: edges decided on and swaps tried

  // Why the search chose this ring. The next larger width of hops, and why there is no ring with it; 0 if no two members are joined by a
  // wider way, or nothing was searched.
  double wider_gbytes_per_s = 0;
  CycleSearch::Outcome why_no_wider = CycleSearch::Outcome::kFound;
  int32_t stuck = -1;  // the index of the member that kFewEdges or kCutVertex means
  // The same values of the members in tree order.
  double tree_gbytes_per_s = 0;
  int32_t tree_host_hops = 0;

  bool operator==(const Ring&) const = default;
};

// `members` are nodes of the graph (GPUs, or the NUMA nodes that ranks are bound to); several may be in one place, and then keep their
// order. Takes at most kMaxRingSteps steps, each a few microseconds.
Ring searchRing(const MachineGraph& graph, std::span<const int32_t> members);

}  // namespace horing
