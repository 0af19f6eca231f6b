#pragma once
// One hwloc topology, destroyed with its owner. Only for the files of this folder.
#include <hwloc.h>

#include <cerrno>
#include <memory>

#include "base/status.h"

namespace horing {

struct DestroyHwloc {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocOwner = std::unique_ptr<hwloc_topology, DestroyHwloc>;

inline Result<HwlocOwner> makeHwloc() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return systemError(errno, "hwloc could not be initialised");
  HwlocOwner owner(topology);
  // Its plugins load other libraries into the process, a vendor's for GPUs, wait for them, and leak (libpciaccess). PCI
  // devices, which GPUs are here, it knows from the kernel as well. The name of a plugin that is not there is refused, which
  // is as well.
  for (const char* plugin : {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"})
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  return owner;
}

}  // namespace horing
