#include "paro/grid.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

constexpr int kCauseMs = 4500;  // as long as a communicator looks for the cause of a failure

// The error of a communicator, for which it waits so long.
Status errorOf(horingComm_t comm, int64_t wait_ms) {
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, wait_ms);
  horingResult_t error = horingSuccess;
  while (horingCommGetAsyncError(comm, &error) == horingSuccess && error == horingSuccess &&
         !deadline.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (error == horingSuccess || error == horingInProgress) return {};
  return Status(static_cast<Code>(error), horingGetLastError(comm));
}

}  // namespace

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
  const auto add = [](std::string& list, int rank) {
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    int group = 0, local = 0;
    HORING_TRY(statusOf(horingCommGroup(global_, rank, &group, &local)));
    if (group == group_number_) add(group_ranks_, rank);
    if (local == local_) add(rail_ranks_, rank);
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
  // The gradient norm is summed over the ranks that shard the state.
  wants[horingParoGroup] |= row.state == horingParoByGroup;
  // Otherwise they would inherit the user's settings, and might be non-blocking.
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (wants[horingParoGroup])
    HORING_TRY(statusOf(horingCommSplit(global_, group_number_, local_, &group_, &config)));
  if (wants[horingParoRail])
    HORING_TRY(statusOf(horingCommSplit(global_, local_, group_number_, &rail_, &config)));
  return {};
}

Status Grid::explain(const Status& status) const {
  if (status.ok() || (!group_ && !rail_)) return status;
  if (status.code() == Code::kRemoteError)
    if (const Status cause = errorOf(global_, kCauseMs); !cause.ok()) return cause;
  const bool in_group = group_ && !errorOf(group_, 0).ok();
  if (!in_group && !(rail_ && !errorOf(rail_, 0).ok())) return status;
  return Status(status.code(), status.message() + "; ranks are counted in this rank's " +
                                   (in_group ? "group, which are ranks " + group_ranks_
                                             : "rail, which are ranks " + rail_ranks_) +
                                   " of all");
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
