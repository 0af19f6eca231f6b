#pragma once
// The cost of collectives, and the time of PaRO's strategies, whose collectives horingParoGetEstimate lists.
//
// Words: n ranks in M groups (nodes) of m; slow links join nodes, fast ones the ranks of a node. A rail is the ranks with one
// local index. V is the size of the whole vector that a collective gathers or reduces.
//
// Over all ranks a collective is split the HO-Ring way: V(M-1)/M bytes enter each node, the lower bound, and V(m-1)/m each rank
// from inside its node, for an all-gather or reduce-scatter; an all-reduce moves twice that. Where nodes differ in size, the smallest has the
// fewest interfaces for what enters it, and a rank of the largest gets the most from its node.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

struct Grid {
  int32_t groups = 1;   // M, nodes
  int32_t members = 1;  // m, ranks of each, or of the smallest
  int32_t most = members;
  int32_t ranks = groups * members;
  bool operator==(const Grid&) const = default;
};
// `sizes`: the ranks of each node, at least one.
Grid gridOf(const std::vector<int>& sizes);
// "4 nodes of 8 ranks", "nodes of 4, 3 ranks"; `sizes` where they differ, else empty.
std::string nodesText(const Grid& grid, const std::vector<int>& sizes);

// Seconds that one collective of V bytes takes: latency + V * per_byte.
struct CollectiveCost {
  double latency_seconds = 0;
  double seconds_per_byte = 0;
};

inline constexpr std::array kScopes = {horingParoGroup, horingParoRail, horingParoGlobal};
inline constexpr std::array kCollectives = {horingParoAllGather, horingParoReduceScatter,
                                            horingParoAllReduce};

// The cost of every collective on a machine: computed from rates by a function below, or measured.
struct CostTable {
  std::array<std::array<CollectiveCost, kCollectives.size()>, kScopes.size()> of = {};
  CollectiveCost& at(horingParoScope_t scope, horingParoCollective_t collective) {
    return of[static_cast<size_t>(scope)][static_cast<size_t>(collective)];
  }
  const CollectiveCost& at(horingParoScope_t scope, horingParoCollective_t collective) const {
    return of[static_cast<size_t>(scope)][static_cast<size_t>(collective)];
  }
};

// The machine's links, each direction by itself.
struct Links {
  double slow_bits_per_second = 80e9;    // of one network interface
  double fast_bits_per_second = 2000e9;  // of one rank inside its node
  double interfaces = 0;                 // of a node; 0: one for each rank
  double slow_hop_seconds = 0;           // latency of one hop between nodes
  double fast_hop_seconds = 0;           // ... inside one
};

// Collectives over all ranks overlap both kinds of links: max(E, I(M-1)/M) + I/M, with E the time on the slow and I on the fast.
CostTable hoRingCosts(const Grid& grid, const Links& links);
// The paper's model: a flat ring of all ranks, V(n-1)/n bytes through one interface.
CostTable flatRingCosts(const Grid& grid, const Links& links);

// Seconds of communication in one optimizer step: t_param, t_grad, t_sync_g and t_sync_p of the paper together.
double communicationSeconds(const horingParoEstimate_t& estimate, const CostTable& costs);

}  // namespace horing::paro
