#pragma once
// The communicators of a client, and its rank's blocks. Rails need groups of one size; between others go messages (exchange.h).
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"
#include "paro/strategy.h"

namespace horing::paro {

// A resource: owns the communicators of group and rail, not the global one.
class Grid {
 public:
  // Makes no communicator yet.
  explicit Grid(horingComm_t global) : global_(global) {}
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  // Local: finds the groups.
  Status look();
  // Collective: makes the communicators that `row` needs.
  Status connect(const Row& row);

  int rank() const { return rank_; }
  // For `row`; blocks() of the row that is connected.
  const Blocks& blocksOf(const Row& row) const { return needsGroups(row) ? nested_ : by_rank_; }
  const Blocks& blocks() const { return *blocks_; }
  const Blocks::Place& place() const { return nested_.place(rank_); }
  // This rank's block.
  Range block(horingParoPartition_t partition, const Padded& vector) const {
    return blocks_->of(partition, rank_, vector);
  }
  horingComm_t communicator(horingParoScope_t scope) const;
  // Those that there are.
  std::vector<horingComm_t> communicators() const;
  // Whether the ranks that exchange something between groups are not those of a rail.
  bool crossesRails(const Move& move) const { return move.scope == horingParoRail && !blocks_->even(); }
  // The error of one of the communicators, if one has failed.
  Status news() const;
  // Waits for it as long as a communicator looks for the cause of a failure, 4.5 s.
  Status awaitNews() const;
  // An error of one of the communicators: the error of the global communicator if it explains a remote error (waits up to 4.5 s for it), or
  // the given error with the ranks of the group or rail that it counts.
  Status explain(const Status& status) const;
  // The deadline of the given communicator, which those of group and rail take over for what begins later.
  void followTimeout();
  int timeoutMs() const { return timeout_ms_; }
  // The order of equal blocks in the global communicator; in the other communicators it is rank order.
  horingBlockOrder_t order() const { return blocks_->even() ? horingRailMajor : horingRankMajor; }

 private:
  horingComm_t global_;
  horingComm_t group_ = nullptr;
  horingComm_t rail_ = nullptr;
  int rank_ = 0;
  int timeout_ms_ = 0;
  Blocks nested_, by_rank_;
  const Blocks* blocks_ = &nested_;
  std::string group_ranks_, rail_ranks_;  // "2, 3": of the global communicator
};

}  // namespace horing::paro
