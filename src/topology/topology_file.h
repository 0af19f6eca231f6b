#pragma once
// A description of a machine in a file or a text, in whichever format: hwloc's XML, NCCL's topology XML, or an hwloc
// synthetic string. They are told apart by their first element, or by having none.
#include <string>

#include "topology/machine_graph.h"

namespace horing {

// Whose bytes these are does not matter. Errors say in which format the text was taken to be, and the line.
Result<MachineGraph> graphFromText(const std::string& text);
// Reads at most kMaxXmlBytes (topology/xml_document.h).
Result<MachineGraph> graphFromFile(const std::string& path);
// In NCCL's format, so that horing and NCCL can both read it.
Status writeTopologyFile(const MachineGraph& graph, const std::string& path);

}  // namespace horing
