#pragma once
// The job's map. Every rank contributes a *fragment*: the part of its machine's graph that leads from the machine to where
// the rank is, and to the NICs near it. The fragments of one node are put together into one graph, a ring is laid through
// the ranks' homes, and each rank gets its rail. A pure function of what all ranks have, so that all find the same.
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

// A direct link of a rank's GPU. The other end is another rank's part, or nobody's.
struct FragmentLink {
  NodeKind kind = NodeKind::kGpu;
  std::string name;
  double gbytes_per_s = 0;
  bool operator==(const FragmentLink&) const = default;
};

// A value. Of a rank that may run anywhere, or does not know: the machine alone.
struct Fragment {
  std::vector<GraphNode> nodes = {GraphNode()};  // node 0 is the machine; details and CPUs are left out
  int32_t home = 0;
  std::vector<FragmentLink> links = {};  // of home
  bool operator==(const Fragment&) const = default;
};

// The way from the machine to `home` with its links, the fabrics that these lead to, and the nearest kMaxFragmentNics NICs with theirs.
Fragment fragmentOf(const MachineGraph& graph, int32_t home);
// The NUMA node that holds all of these CPUs, where others hold none of them; the machine: there is no such.
int32_t homeOf(const MachineGraph& graph, const std::vector<int32_t>& cpus);

struct JobMap {
  // The order of ranks inside groups: ranks of one node one after the other, nodes by their lowest rank.
  std::vector<int32_t> precedence;  // of each rank
  std::vector<std::string> rails;   // of each rank: "mlx5_0 12.5 GB/s"; empty: it does not know
  std::vector<std::string> warnings;
};

// One label and one fragment for each rank; ranks with one label share a machine. Where the fragments of a node contradict
// each other its ranks keep their plain order, and a warning says so.
JobMap layJob(std::span<const std::string> node_of_rank, std::span<const Fragment> fragment_of_rank);

}  // namespace horing
