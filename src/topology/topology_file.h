#pragma once
// A description of a machine in a file or a text, in any of three formats: hwloc's XML, NCCL's topology XML, or an hwloc synthetic string,
// distinguished by the first element or its absence.
#include <string>

#include "topology/machine_graph.h"

namespace horing {

// The text is untrusted. Errors name the detected format and the line.
Result<MachineGraph> graphFromText(const std::string& text);
// Reads at most kMaxXmlBytes (topology/xml_document.h).
Result<MachineGraph> graphFromFile(const std::string& path);
// Writes NCCL's format, which both horing and NCCL can read.
Status writeTopologyFile(const MachineGraph& graph, const std::string& path);

}  // namespace horing
