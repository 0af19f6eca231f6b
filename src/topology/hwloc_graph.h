#pragma once
// The graph of a machine from hwloc: of this machine, or a synthetic one.
#include <string>

#include "topology/machine_graph.h"
#include "topology/nvml.h"

namespace horing {

// The sources for information that hwloc does not have.
struct FindOptions {
  std::string sysfs = "/sys";  // speeds of interfaces and RDMA devices, and interfaces that are not on a bus
  std::string nvml = kNvmlLibrary;  // NVLink; empty: skip
};

// This machine; tens of milliseconds. HWLOC_XMLFILE and HWLOC_SYNTHETIC are honoured by hwloc.
Result<MachineGraph> graphOfThisMachine(const FindOptions& options = {});
// Only the NICs in `sysfs`, each under all of its names, with speeds but without places: less than a millisecond.
Result<MachineGraph> graphOfNics(const std::string& sysfs);
// "pack:2 numa:2 core:8 pu:2".
Result<MachineGraph> graphFromSynthetic(const std::string& description);

}  // namespace horing
