#pragma once
// One hwloc topology, destroyed with its owner. Private to this folder.
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
  // Disables hwloc's plugins: they load other libraries (a vendor's, for GPUs), wait for them, and leak (libpciaccess). hwloc finds PCI
  // devices, GPUs included, through the kernel as well. Disabling an absent plugin fails, which is harmless.
  for (const char* plugin : {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"})
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  return owner;
}

}  // namespace horing
