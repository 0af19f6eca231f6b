#include "topology/machine.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/first_line.h"
#include "base/folder_entries.h"
#include "topology/hwloc_handle.h"

namespace horing {

namespace {

// Levels that the machine does not show (no cores in some virtual machines) count as 0.
int count(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

Result<Machine> loadMachine(hwloc_topology_t topology) {
  if (hwloc_topology_load(topology) != 0)
    return systemError(errno, "hwloc could not read this machine's topology");
  Machine machine;
  machine.packages = count(topology, HWLOC_OBJ_PACKAGE);
  machine.numa_nodes = count(topology, HWLOC_OBJ_NUMANODE);
  machine.cores = count(topology, HWLOC_OBJ_CORE);
  machine.processing_units = count(topology, HWLOC_OBJ_PU);
  const int allowed = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(topology));
  machine.usable_units = std::max(1, allowed);
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  machine.memory_bytes = root->total_memory;
  hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char* model = hwloc_obj_get_info_by_name(package ? package : root, "CPUModel");
  machine.cpu_model = model ? model : "";
  return machine;
}

int64_t numberIn(const std::filesystem::path& path, int64_t fallback) {
  const std::string line = firstLine(path);
  char* end = nullptr;
  const long long value = std::strtoll(line.c_str(), &end, 0);
  return end == line.c_str() ? fallback : value;
}

}  // namespace

int usableProcessingUnits() {
  // A fixed cpu_set_t covers 1024 units; larger machines answer EINVAL until the set is large enough.
  for (int units = 1024; units <= 1 << 20; units *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(units));
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(units));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int usable = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::max(1, usable);
    if (errno != EINVAL) break;
  }
  return 1;
}

std::vector<NetworkInterface> readInterfaces(const std::string& sysfs_directory) {
  constexpr int64_t kFlagUp = 0x1;
  constexpr int64_t kFlagLoopback = 0x8;
  std::vector<NetworkInterface> found;
  for (const std::filesystem::path& path : folderEntries(sysfs_directory)) {
    const int64_t flags = numberIn(path / "flags", -1);
    if (flags < 0) continue;  // not an interface, such as bonding_masters
    NetworkInterface interface;
    interface.name = path.filename().string();
    // Unknown is -1, or 2^32 - 1 in old kernels.
    const int64_t speed_mbit = numberIn(path / "speed", 0);
    interface.speed_mbit = speed_mbit > 0 && speed_mbit < INT32_MAX ? speed_mbit : 0;
    interface.numa_node = static_cast<int32_t>(numberIn(path / "device" / "numa_node", -1));
    interface.up = (flags & kFlagUp) != 0;
    interface.loopback = (flags & kFlagLoopback) != 0;
    found.push_back(std::move(interface));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

Result<Machine> findMachine() {
  HORING_ASSIGN(const HwlocOwner topology, makeHwloc());
  HORING_ASSIGN(Machine machine, loadMachine(topology.get()));
  machine.usable_units = std::min(machine.usable_units, usableProcessingUnits());
  machine.interfaces = readInterfaces("/sys/class/net");
  return machine;
}

std::string Machine::describe() const {
  const auto plural = [](int number, const char* noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
  };
  return plural(packages, "package") + ", " + plural(numa_nodes, "NUMA node") + ", " + plural(cores, "core") +
         " (" + plural(usable_units, "usable thread") + "), " +
         formatString("%.1f GiB", static_cast<double>(memory_bytes) / (1024.0 * 1024.0 * 1024.0));
}

}  // namespace horing
