#pragma once
// What a rank tells the others about its machine and process, from which they derive the nodes.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fields.h"
#include "base/status.h"
#include "cuda/api.h"
#include "topology/cpu_quota.h"

namespace horing {

struct GpuIdentity {
  CudaUuid uuid{};
  bool has_mps = false;  // MPS runs kernels of several processes concurrently
  bool operator==(const GpuIdentity&) const = default;
};

// A value. Two containers, or two emulated nodes, can share a kernel and even a host name. So ranks are assumed to share memory only if
// all these fields agree, and a transport confirms it by opening the peer's segment. The mount namespace is left out: `ip netns exec` makes
// one for every process. Whether two ranks see the same shared-memory directory follows from the directory's device and inode.
struct HostIdentity {
  std::string host_name;       // in the UTS namespace
  std::string boot_id;         // of the kernel
  std::string host_override;   // HORING_HOSTID; replaces everything below in nodeLabel() when set
  std::string group_override;  // HORING_GROUP, or derived from the host by HORING_GROUP_BY
  std::string switches;        // the switches above the host, by HORING_GROUP_BY (topology/group_rule.h)
  uint64_t ipc_namespace = 0;  // inode numbers; 0 when not readable
  uint64_t network_namespace = 0;
  uint64_t shm_device = 0;  // of the directory for shared-memory segments
  uint64_t shm_inode = 0;
  uint64_t pid_namespace = 0;  // containers may each have one, with equal process IDs
  int64_t pid = 0;
  std::vector<int32_t> cpus;  // the CPUs that the rank may run on, ascending
  CpuQuota quota;             // the share of these CPUs
  // The GPU that was current when the rank made its communicator, if any.
  std::optional<GpuIdentity> gpu;
  bool operator==(const HostIdentity&) const = default;

  // Ranks with equal labels share a node. HORING_HOSTID, or boot id, IPC and network namespace and
  // shared-memory directory.
  std::string nodeLabel() const;
  // Ranks with equal labels form a group: HORING_GROUP, or the node.
  std::string groupLabel() const;
  // Ranks with equal labels are threads of one process.
  std::string processLabel() const;
  // "node-a (pid 4711, 8 cores)".
  std::string describe() const;
};

// The ranks under one operating-system kernel, in one node or in several emulated nodes, and the cores that these ranks may use together
// within the limits of control groups.
struct KernelLoad {
  int32_t ranks = 0;
  int32_t cores = 0;
  // More ranks than cores: in total, among ranks bound to the same cores, or among ranks in one control group.
  bool shares_cores = false;
};
// Keyed by boot ID.
std::map<std::string, KernelLoad> kernelLoads(std::span<const HostIdentity> identities);

// Describes this process, which computes on the GPU with this PCI address; empty: no GPU. Uses host_id, group, group_by and shm_dir of the
// configuration.
Result<HostIdentity> findHostIdentity(const Config& config, const std::string& gpu_bus = "");

// For the exchange (base/fields.h).
void fields(auto& wire, Is<HostIdentity> auto& identity);

}  // namespace horing
