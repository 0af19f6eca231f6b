#pragma once
// By which adapters each GPU of a node sends to other nodes, and by which way: from the topology, without measuring.
#include <string>

#include "topology/machine_graph.h"

namespace horing::check {

// "GPU[0-6]: 1 adapter, one PCIe switch; GPU7: 1 adapter, across the machine": GPUs by horing-topo's numbers, and the adapters that
// horing would use. Empty without GPUs or adapters.
std::string adaptersOfGpus(const MachineGraph& graph);

}  // namespace horing::check
