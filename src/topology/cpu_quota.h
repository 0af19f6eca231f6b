#pragma once
// How much of the machine's CPUs control groups leave to this process: a container of two CPUs on a machine of 64 may see all of them,
// run on any, and yet be stopped whenever it has used two.
#include <cstdint>
#include <string>

namespace horing {

struct CpuQuota {
  int32_t millicpus = 0;  // thousandths of a CPU; 0: no limit was found
  uint64_t group = 0;     // that sets the limit: its inode. Processes of one group share what it leaves them.
  bool operator==(const CpuQuota&) const = default;
};

// The tightest limit of this process's control group and of those above it, as far as they can be seen: cpu.max of cgroup v2,
// cpu.cfs_quota_us of v1. What is absent, or makes no sense, is no limit. `root`: the folder of proc and sys.
CpuQuota findCpuQuota(const std::string& root = "");

}  // namespace horing
