#pragma once
// What horing would make of a machine on which every GPU, or else every NUMA node, has one rank.
#include <string>
#include <vector>

#include "topology/machine_graph.h"
#include "topology/rails.h"
#include "topology/ring_search.h"

namespace horing::topo {

struct MachinePlan {
  MachineGraph graph;
  std::vector<int32_t> members;  // GPUs in the order of their PCI addresses, or NUMA nodes
  Ring ring;                     // places in `members`
  std::vector<Rail> rails;       // of each member

  // "GPU3", "NUMA 1"; by place in `members`.
  std::string memberName(int32_t member) const;
  // "GPU3", "numa 1", "mlx5_0", "PCIe switch 0000:10:00.0".
  std::string nodeName(int32_t node) const;
};

MachinePlan planMachine(MachineGraph graph);

// "2 packages, 4 NUMA nodes, 8 GPUs, 8 NICs".
std::string summary(const MachineGraph& graph);
// "15.8 GB/s", "GB/s unknown".
std::string bandwidthText(double gbytes_per_s);
// "GPU0 > GPU1 > GPU2 > back"; empty without a second member.
std::string ringText(const MachinePlan& plan);
// "rail 0 GPU0 by mlx5_0, mlx5_1: one PCIe switch, 50 GB/s", and "no rail uses eth0"; or one line that says that there is no NIC.
std::vector<std::string> railLines(const MachinePlan& plan);

std::string planAsText(const MachinePlan& plan);
std::string planAsJson(const MachinePlan& plan);
// A whole SVG document.
std::string planAsSvg(const MachinePlan& plan, const std::string& title);

}  // namespace horing::topo
