#pragma once
// The topology XML of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), which cloud vendors ship: <system> holds a <cpu> for
// each NUMA node, these hold <pci> trees, and PCI devices hold <gpu> or <nic><net/></nic>. Vendors leave much out: PCI
// devices without <gpu> or <nic> are told by their class.
#include <string>
#include <vector>

#include "topology/machine_graph.h"
#include "topology/xml_document.h"

namespace horing {

// `elements` as parseXml() gives them. What is unknown is skipped; what contradicts the format is refused with its line.
Result<MachineGraph> graphFromNcclXml(const std::vector<XmlElement>& elements);

// In the same format, with the attributes `package` (of a cpu) and `gbytes` (of a link) besides, which NCCL skips. Read
// again, it gives the same graph, but for details.
std::string toNcclXml(const MachineGraph& graph);

}  // namespace horing
