#pragma once
// hwloc's XML (`lstopo machine.xml`) of version 2 or 3, read without hwloc: hwloc 2.9 crashes on damaged files, and cannot read files of
// version 3.
#include <vector>

#include "topology/machine_graph.h"
#include "topology/xml_document.h"

namespace horing {

// `elements`: from parseXml(). Gives the same graph as hwloc's own reader (topology/hwloc_graph.h), without speeds of NICs, which hwloc's
// files do not have.
Result<MachineGraph> graphFromHwlocXml(const std::vector<XmlElement>& elements);

}  // namespace horing
