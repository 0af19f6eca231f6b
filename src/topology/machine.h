#pragma once
// The components of this machine that horing needs, from hwloc and sysfs.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

struct NetworkInterface {
  std::string name;        // "eth0"
  int64_t speed_mbit = 0;  // of the link; 0: unknown (virtual interfaces)
  int32_t numa_node = -1;  // -1: unknown
  bool up = false;
  bool loopback = false;
};

// An immutable value.
struct Machine {
  int packages = 0;
  int numa_nodes = 0;
  int cores = 0;             // of the machine; hardware threads of one core count once
  int processing_units = 0;  // hardware threads of the machine
  int usable_units = 0;      // hardware threads that this process may run on; at least 1
  uint64_t memory_bytes = 0;
  std::string cpu_model;                     // empty when unknown
  std::vector<NetworkInterface> interfaces;  // of this network namespace, by name

  // "1 package, 1 NUMA node, 2 cores (2 usable), 24.0 GiB".
  std::string describe() const;
};

// Describes the machine that this process runs on; takes tens of milliseconds. HWLOC_XMLFILE and HWLOC_SYNTHETIC are honoured by hwloc.
Result<Machine> findMachine();

// Hardware threads that this process may run on, for the waiting policy: cheap, no hwloc. At least 1.
int usableProcessingUnits();
// Interfaces below a directory laid out as /sys/class/net.
std::vector<NetworkInterface> readInterfaces(const std::string& sysfs_directory);

}  // namespace horing
