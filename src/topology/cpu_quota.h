#pragma once
// The CPU quota that control groups leave to this process: a container with two CPUs on a machine of 64 may see and use all CPUs, and is
// throttled when it has used two.
#include <cstdint>
#include <string>

namespace horing {

struct CpuQuota {
  int32_t millicpus = 0;  // thousandths of a CPU; 0: no limit was found
  uint64_t group = 0;     // inode of the group that sets the limit, which its processes share
  bool operator==(const CpuQuota&) const = default;
};

// The tightest limit of this process's control group and its visible ancestors: cpu.max of cgroup v2, cpu.cfs_quota_us of v1. Absent or
// invalid values mean no limit. `root`: the folder that contains proc and sys.
CpuQuota findCpuQuota(const std::string& root = "");

}  // namespace horing
