#pragma once
// The machine as hwloc sees it: this one, or a synthetic one.
#include <string>

#include "topology/machine_graph.h"
#include "topology/nvml.h"

namespace horing {

// Where to look for what hwloc leaves out.
struct FindOptions {
  std::string sysfs = "/sys";  // speeds of interfaces and RDMA devices, and interfaces that stand on no bus
  std::string nvml = kNvmlLibrary;  // NVLink; empty: do not look
};

// This machine; tens of milliseconds. HWLOC_XMLFILE and HWLOC_SYNTHETIC are honoured by hwloc.
Result<MachineGraph> graphOfThisMachine(const FindOptions& options = {});
// Only the NICs that `sysfs` lists, each by all of its names, with their speeds and no word of where they are: less than a millisecond.
Result<MachineGraph> graphOfNics(const std::string& sysfs);
// "pack:2 numa:2 core:8 pu:2".
Result<MachineGraph> graphFromSynthetic(const std::string& description);

}  // namespace horing
