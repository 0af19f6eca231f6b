#pragma once
// hwloc's XML (`lstopo machine.xml`) of version 2 or 3, read without hwloc: hwloc 2.9 crashes on damaged files, and cannot
// read those of version 3.
#include <vector>

#include "topology/machine_graph.h"
#include "topology/xml_document.h"

namespace horing {

// `elements` as parseXml() gives them. Gives what hwloc's own reading would (topology/hwloc_graph.h), but for speeds of NICs,
// which hwloc's files do not hold.
Result<MachineGraph> graphFromHwlocXml(const std::vector<XmlElement>& elements);

}  // namespace horing
