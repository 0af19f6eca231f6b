#pragma once
// By which adapters each GPU of a node sends to other nodes, and what the way to them carries: from the topology, without measuring.
#include <string>

#include "topology/machine_graph.h"

namespace horing::check {

// "GPU[0-6]: 1 adapter, one PCIe switch, 24.6 GB/s; GPU7: 1 adapter, across the machine, 12.3 GB/s": GPUs by horing-topo's numbers, the
// adapters that horing would use while all GPUs send. Empty without GPUs or adapters.
std::string adaptersOfGpus(const MachineGraph& graph);

}  // namespace horing::check
