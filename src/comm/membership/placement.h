#pragma once
// The ranks of a communicator: their identity and placement, and the groups, rings and rails over them. Constant.
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/membership/host_identity.h"
#include "comm/membership/rank_place.h"
#include "selection/selection_table.h"
#include "topology/group_map.h"
#include "topology/job_map.h"

namespace horing {

// A value, the same on every rank. Any thread.
class Placement {
 public:
  // What rank 0 has cached of earlier measurements.
  struct First {
    bool keeps_tables = false;  // it may have a table for this job
    bool measures = false;      // it measures, and caches the result, if there is no table
  };
  // What the ranks told about themselves, by rank.
  struct Ranks {
    std::vector<HostIdentity> identities;
    std::vector<Fragment> fragments;
    First first{};
  };
  // Whether two ranks have opened each other's memory; null: ranks do not try.
  using SharesMemory = std::function<bool(size_t a, size_t b)>;
  // `reproducible`: the order of ranks, and so the order of folds, does not depend on placement. Errors: groups that cannot be formed.
  static Result<Placement> of(Ranks ranks, bool reproducible, const SharesMemory& shares_memory);

  int ranks() const { return static_cast<int>(told_.identities.size()); }
  const HostIdentity& identityOf(int rank) const { return told_.identities[static_cast<size_t>(rank)]; }
  std::span<const HostIdentity> identities() const { return told_.identities; }
  const Fragment& fragmentOf(int rank) const { return told_.fragments[static_cast<size_t>(rank)]; }
  const First& first() const { return told_.first; }
  const GroupMap& map() const { return map_; }
  // For each position, the number of its block in rail-major order. Valid as long as the job. Error: groups of different sizes.
  Result<const int32_t*> railMajorBlocks() const;
  // Counts ranks as sharing cores if the ranks of any machine do.
  JobShape shape() const;
  // By boot id.
  std::map<std::string, KernelLoad> kernels() const { return kernelLoads(told_.identities); }
  // No two ranks are threads of one process.
  bool areAllProcesses() const;

  // For logs: "numa 1", "mlx5_0 12.5 GB/s"; empty: unbound, or unknown.
  std::string homeOf(int rank) const;
  const std::string& railOf(int rank) const { return laid_.rails[static_cast<size_t>(rank)]; }
  const std::vector<std::string>& warnings() const { return laid_.warnings; }

 private:
  Placement(Ranks told, JobMap laid, GroupMap map)
      : told_(std::move(told)),
        laid_(std::move(laid)),
        map_(std::move(map)),
        rail_major_blocks_(map_.railMajorBlocks()) {}

  Ranks told_;
  JobMap laid_;
  GroupMap map_;
  std::vector<int32_t> rail_major_blocks_;  // empty where groups differ in size
};

}  // namespace horing
