#pragma once
// The topology XML of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), which cloud vendors ship: <system> contains a <cpu> for each NUMA node,
// <cpu> contains <pci> trees, and PCI devices contain <gpu> or <nic><net/></nic>. Vendors omit much: PCI devices without <gpu> or <nic> are
// identified by their class.
#include <string>
#include <vector>

#include "topology/machine_graph.h"
#include "topology/xml_document.h"

namespace horing {

// `elements`: from parseXml(). Unknown elements are skipped; format errors name the line. Of several hosts (host_hash: a dump of machines that
// share NVLink), the first is the machine, which a remark says.
Result<MachineGraph> graphFromNcclXml(const std::vector<XmlElement>& elements);

// Writes the same format, with the additional attributes `package` (of a cpu) and `gbytes` (of a link), which NCCL skips. Reading it back
// gives the same graph, without details.
std::string toNcclXml(const MachineGraph& graph);

}  // namespace horing
