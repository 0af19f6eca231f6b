#include "comm/membership/placement.h"

#include <set>
#include <utility>

namespace horing {

namespace {

// HORING_GROUP, or the node. Ranks with equal labels count as one node only if they have opened each other's memory: a rank's node is named
// after the lowest rank with the same label that it shares memory with.
std::vector<std::string> groupLabels(std::span<const HostIdentity> identities,
                                     const Placement::SharesMemory& shares_memory) {
  std::vector<std::string> labels;
  for (size_t rank = 0; rank < identities.size(); ++rank) {
    labels.push_back(identities[rank].groupLabel());
    if (!identities[rank].group_override.empty() || !shares_memory) continue;
    const std::string node = identities[rank].nodeLabel();
    size_t leader = 0;
    while (leader < rank && !(identities[leader].nodeLabel() == node && shares_memory(rank, leader)))
      ++leader;
    labels.back() += formatString(" led by rank %zu", leader);
  }
  return labels;
}

}  // namespace

Result<Placement> Placement::of(Ranks ranks, bool reproducible, const SharesMemory& shares_memory) {
  std::vector<std::string> nodes, switches;
  for (const HostIdentity& identity : ranks.identities) {
    nodes.push_back(identity.nodeLabel());
    switches.push_back(identity.switches);
  }
  JobMap laid = layJob(nodes, ranks.fragments);
  if (reproducible) {
    laid.precedence.clear();
    switches.clear();
  }
  HORING_ASSIGN(GroupMap map, GroupMap::fromLabels(groupLabels(ranks.identities, shares_memory),
                                                   laid.precedence, switches));
  return Placement(std::move(ranks), std::move(laid), std::move(map));
}

Result<const int32_t*> Placement::railMajorBlocks() const {
  if (!rail_major_blocks_.empty()) return rail_major_blocks_.data();
  return makeStatus(
      Code::kInvalidUsage,
      "order is horingRailMajor, which needs groups of one size, and these ranks are in %s: use "
      "horingRankMajor, or HORING_GROUP to make them equal",
      map_.describe().c_str());
}

JobShape Placement::shape() const {
  JobShape shape{map_.groups(), map_.largestGroup()};
  for (const auto& [boot_id, load] : kernels())
    if (load.shares_cores) shape.ranks_per_core = RanksPerCore::kMore;
  return shape;
}

bool Placement::areAllProcesses() const {
  std::set<std::string> processes;
  for (const HostIdentity& identity : told_.identities) processes.insert(identity.processLabel());
  return static_cast<int>(processes.size()) == ranks();
}

std::string Placement::homeOf(int rank) const {
  const Fragment& fragment = fragmentOf(rank);
  const GraphNode& home = fragment.nodes[static_cast<size_t>(fragment.home)];
  return fragment.home == 0 ? "" : nodeKindName(home.kind) + (" " + home.name);
}

}  // namespace horing
