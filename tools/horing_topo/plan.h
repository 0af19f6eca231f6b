#pragma once
// The ring and rails on a machine where every GPU, or else every NUMA node, has one rank.
#include <string>
#include <vector>

#include "topology/machine_graph.h"
#include "topology/rails.h"
#include "topology/ring_search.h"

namespace horing::topo {

struct MachinePlan {
  MachineGraph graph;
  std::vector<int32_t> members;  // GPUs in the order of their PCI addresses, or NUMA nodes
  Ring ring;                     // indices into `members`
  std::vector<Rail> rails;       // of each member

  // "GPU3", "NUMA 1"; by index into `members`.
  std::string memberName(int32_t member) const;
  // "GPU3", "numa 1", "mlx5_0", "PCIe switch 0000:10:00.0".
  std::string nodeName(int32_t node) const;
};

MachinePlan planMachine(MachineGraph graph);

// "2 packages, 4 NUMA nodes, 8 GPUs, 8 NICs".
std::string summary(const MachineGraph& graph);
// "15.8 GB/s", "speed unknown".
std::string bandwidthText(double gbytes_per_s);
// "rail 3", "rails 0-3,6", "no rail".
std::string railsText(const std::vector<size_t>& rails);
// "GPU0 > GPU1 > GPU2 > back"; empty without a second member.
std::string ringText(const MachinePlan& plan);
// How good it is, why there is no wider one, and what the plain order would be; empty without a second member.
std::vector<std::string> ringReasons(const MachinePlan& plan);
// "rail 0 GPU0 by mlx5_0, mlx5_1: one PCIe switch, 50 GB/s", and "no rail uses eth0"; or one line that says that there is no NIC.
std::vector<std::string> railLines(const MachinePlan& plan);
// What bounds rails and which NICs would be next: one line for all rails that are alike.
std::vector<std::string> railReasons(const MachinePlan& plan);

std::string planAsText(const MachinePlan& plan);
std::string planAsJson(const MachinePlan& plan);
// A whole SVG document.
std::string planAsSvg(const MachinePlan& plan, const std::string& title);

}  // namespace horing::topo
