#pragma once
// The caches of a CPU. From sysfs: sysconf() multiplies the last level by the CPUs that share it on some processors, and by more in
// virtual machines.
#include <cstdint>
#include <string>

namespace horing {

struct CpuCaches {
  uint64_t second_level_bytes = 0;  // 0: unknown
  uint64_t last_level_bytes = 0;    // 0: unknown
  int32_t last_level_cpus = 1;      // the CPUs that share it

  bool operator==(const CpuCaches&) const = default;
};

// Absent or invalid values are unknown. `root`: the folder that contains sys.
CpuCaches findCpuCaches(int cpu, const std::string& root = "");
// The caches of the CPU that runs the calling thread.
CpuCaches cachesOfThisThread();

}  // namespace horing
