#include "paro/grid.h"

#include <algorithm>
#include <vector>

#include "paro/status_of.h"

namespace horing::paro {

Grid::~Grid() {
  for (const horingComm_t comm : {group_, rail_})
    if (comm) (void)horingCommDestroy(comm);
}

Status Grid::look() {
  int ranks = 0;
  HORING_TRY(statusOf(horingCommCount(global_, &ranks)));
  HORING_TRY(statusOf(horingCommUserRank(global_, &rank_)));
  HORING_TRY(statusOf(horingCommGroup(global_, rank_, &group_number_, &local_)));
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) {
    int group = 0, local = 0;
    HORING_TRY(statusOf(horingCommGroup(global_, rank, &group, &local)));
    members.resize(std::max(members.size(), static_cast<size_t>(group) + 1));
    ++members[static_cast<size_t>(group)];
  }
  const auto [least, most] = std::minmax_element(members.begin(), members.end());
  is_grid_ = *least == *most;
  shape_ = is_grid_ ? Shape{static_cast<int>(members.size()), *most} : Shape{ranks, 1};
  return {};
}

Status Grid::connect(const Row& row) {
  if (needsGroups(row) && !is_grid_)
    return makeStatus(
        Code::kInvalidUsage,
        "strategy %s shares out inside groups, and the groups of this communicator differ in size: use NNN, "
        "NNG, NGG, GNG or GGG, or make them equal with HORING_GROUP",
        row.name);
  bool wants[3] = {};
  for (const Move& move : movesOf(row)) wants[move.scope] = true;
  // The norm of the gradient is summed over those that share out the state.
  wants[horingParoGroup] |= row.state == horingParoByGroup;
  // Else they would be as the user's communicator is, and perhaps be made later.
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (wants[horingParoGroup])
    HORING_TRY(statusOf(horingCommSplit(global_, group_number_, local_, &group_, &config)));
  if (wants[horingParoRail])
    HORING_TRY(statusOf(horingCommSplit(global_, local_, group_number_, &rail_, &config)));
  return {};
}

horingComm_t Grid::communicator(horingParoScope_t scope) const {
  return scope == horingParoGroup ? group_ : scope == horingParoRail ? rail_ : global_;
}

int Grid::sharers(horingParoScope_t scope) const {
  return scope == horingParoGroup ? shape_.members : scope == horingParoRail ? shape_.groups : shape_.ranks();
}

size_t Grid::blockIn(horingParoScope_t scope) const {
  if (scope == horingParoRail) return static_cast<size_t>(group_number_);
  return block(scope == horingParoGroup ? horingParoByGroup : horingParoByAll);
}

size_t Grid::block(horingParoPartition_t partition) const {
  if (partition == horingParoWhole) return 0;
  if (partition == horingParoByGroup) return static_cast<size_t>(local_);
  return static_cast<size_t>(is_grid_ ? local_ * shape_.groups + group_number_ : rank_);
}

}  // namespace horing::paro
