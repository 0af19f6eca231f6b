#include "paro/grid.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

constexpr int kCauseMs = 4500;  // as long as a communicator looks for the cause of a failure

// Calls look() until it finds an error, or `wait_ms` have passed.
template <typename Look>
Status errorWithin(int64_t wait_ms, Look look) {
  const SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, wait_ms);
  for (;;) {
    Status found = look();
    if (!found.ok() || deadline.passed()) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Status errorOf(horingComm_t comm) {
  horingResult_t error = horingSuccess;
  (void)horingCommGetAsyncError(comm, &error);
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
  HORING_TRY(statusOf(horingCommGetTimeout(global_, &timeout_ms_)));
  std::vector<Blocks::Place> places(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Blocks::Place& place = places[static_cast<size_t>(rank)];
    HORING_TRY(statusOf(horingCommGroup(global_, rank, &place.group, &place.local)));
  }
  const auto add = [](std::string& list, int rank) {
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  };
  const Blocks::Place mine = places[static_cast<size_t>(rank_)];
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [group, local] = places[static_cast<size_t>(rank)];
    if (group == mine.group) add(group_ranks_, rank);
    if (local == mine.local) add(rail_ranks_, rank);
  }
  nested_ = Blocks(places, /*nested=*/true);
  by_rank_ = Blocks(std::move(places), /*nested=*/false);
  return {};
}

Status Grid::connect(const Row& row) {
  blocks_ = &blocksOf(row);
  bool wants[3] = {};
  for (const Move& move : movesOf(row)) wants[move.scope] |= !crossesRails(move);
  // The gradient norm is summed over the ranks that shard the state.
  wants[horingParoGroup] |= row.state == horingParoByGroup;
  // Otherwise they would inherit the user's settings, and might be non-blocking.
  horingConfig_t config = HORING_CONFIG_INITIALIZER;
  config.blocking = 1;
  const auto [group, local] = place();
  if (wants[horingParoGroup]) HORING_TRY(statusOf(horingCommSplit(global_, group, local, &group_, &config)));
  if (wants[horingParoRail]) HORING_TRY(statusOf(horingCommSplit(global_, local, group, &rail_, &config)));
  return {};
}

Status Grid::news() const {
  for (const horingComm_t comm : communicators()) HORING_TRY(errorOf(comm));
  return {};
}

void Grid::followTimeout() {
  int timeout_ms = 0;
  // What the communicator's own calls say is wrong comes out of these.
  if (horingCommGetTimeout(global_, &timeout_ms) != horingSuccess || timeout_ms == timeout_ms_) return;
  timeout_ms_ = timeout_ms;
  for (const horingComm_t comm : {group_, rail_})
    if (comm) (void)horingCommSetTimeout(comm, timeout_ms);
}

Status Grid::awaitNews() const {
  return errorWithin(kCauseMs, [this] { return news(); });
}

Status Grid::explain(const Status& status) const {
  if (status.ok() || (!group_ && !rail_)) return status;
  if (status.code() == Code::kRemoteError)
    if (Status cause = errorWithin(kCauseMs, [this] { return errorOf(global_); }); !cause.ok()) return cause;
  const bool in_group = group_ && !errorOf(group_).ok();
  if (!in_group && !(rail_ && !errorOf(rail_).ok())) return status;
  return Status(status.code(), status.message() + "; ranks are counted in this rank's " +
                                   (in_group ? "group, which are ranks " + group_ranks_
                                             : "rail, which are ranks " + rail_ranks_) +
                                   " of all");
}

std::vector<horingComm_t> Grid::communicators() const {
  std::vector<horingComm_t> all = {global_, group_, rail_};
  std::erase(all, nullptr);
  return all;
}

horingComm_t Grid::communicator(horingParoScope_t scope) const {
  return scope == horingParoGroup ? group_ : scope == horingParoRail ? rail_ : global_;
}

}  // namespace horing::paro
