#pragma once
// The job's map. Every rank contributes a *fragment*: the part of its machine's graph from the root to the rank's place, and to the NICs
// near it. The fragments of one node are merged into one graph, a ring is found through the ranks' places, and each rank gets its rail. A
// pure function of all fragments, so that all ranks get the same map.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/machine_graph.h"
#include "topology/rails.h"

namespace horing {

inline constexpr size_t kMaxFragmentNodes = 64;
inline constexpr size_t kMaxFragmentNics = 16;
inline constexpr size_t kMaxFragmentLinks = 64;

// A direct link of a rank's GPU. The other end may be another rank's GPU or unused.
struct FragmentLink {
  NodeKind kind = NodeKind::kGpu;
  std::string name;
  double gbytes_per_s = 0;
  bool operator==(const FragmentLink&) const = default;
};

// A value. Only the machine node for a rank that is unbound, or whose place is unknown.
struct Fragment {
  std::vector<GraphNode> nodes = {GraphNode()};  // node 0 is the machine; details and CPUs are left out
  int32_t home = 0;
  std::vector<FragmentLink> links = {};  // links of `home`
  bool operator==(const Fragment&) const = default;
};

// The path from the machine to `home` with its links and their fabrics, and the paths to the nearest kMaxFragmentNics NICs.
Fragment fragmentOf(const MachineGraph& graph, int32_t home);
// The NUMA node that contains all of these CPUs, if no other contains any; otherwise the machine.
int32_t homeOf(const MachineGraph& graph, const std::vector<int32_t>& cpus);

struct JobMap {
  // The order of ranks inside groups: ranks of one node are consecutive, nodes are ordered by their lowest rank.
  std::vector<int32_t> precedence;  // of each rank
  std::vector<std::string> rails;   // by rank: "mlx5_0 12.5 GB/s"; empty: unknown
  std::vector<std::string> warnings;
};

// One label and one fragment for each rank; ranks with equal labels share a machine. If the fragments of a node contradict each other, its
// ranks keep their rank order, with a warning.
JobMap layJob(std::span<const std::string> node_of_rank, std::span<const Fragment> fragment_of_rank);

}  // namespace horing
