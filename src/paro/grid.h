#pragma once
// The communicators of a client and the places of ranks in them.
//
// A vector is cut into one block for each rank, in rail-major order: the blocks of the ranks of one rail are adjacent, so the share of a
// rank inside its group is one range, and its share among all ranks is inside that range. No data is ever reordered.
#include <string>

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

  // Local: finds the groups. If they differ in size, isGrid() is false, and shape() counts each rank as a group.
  Status look();
  // Collective: makes the communicators that `row` needs. Refuses a row that needs groups if there is no grid.
  Status connect(const Row& row);

  bool isGrid() const { return is_grid_; }
  int rank() const { return rank_; }
  const Shape& shape() const { return shape_; }
  horingComm_t communicator(horingParoScope_t scope) const;
  // An error of one of the communicators: the error of the global communicator if it explains a remote error (waits up to 4.5 s for it), or
  // the given error with the ranks of the group or rail that it counts.
  Status explain(const Status& status) const;
  // The number of ranks in the scope, and the number of this rank's block.
  int sharers(horingParoScope_t scope) const;
  size_t blockIn(horingParoScope_t scope) const;
  // The order of blocks in the global communicator; in the other communicators it is rank order.
  horingBlockOrder_t order() const { return is_grid_ ? horingRailMajor : horingRankMajor; }
  // The number of this rank's block in `partition`: its first element is block * size / divisor.
  size_t block(horingParoPartition_t partition) const;

 private:
  horingComm_t global_;
  horingComm_t group_ = nullptr;
  horingComm_t rail_ = nullptr;
  Shape shape_;
  bool is_grid_ = false;
  int rank_ = 0;
  std::string group_ranks_, rail_ranks_;  // "2, 3": of the global communicator
  int group_number_ = 0;
  int local_ = 0;
};

}  // namespace horing::paro
