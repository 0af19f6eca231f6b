#pragma once
// The communicators of a client and who is where in them.
//
// A vector is cut into one block for each rank, in rail-major order: the blocks of the ranks of one rail follow
// each other, so the share of a rank inside its group is one range, and its share among all ranks lies inside that
// range. No data is ever reordered.
#include "base/status.h"
#include "horing/horing.h"
#include "paro/strategy.h"

namespace horing::paro {

// A resource: owns the communicators of group and rail, not the global one.
class Grid {
 public:
  // Collective. Looks up who is in which group; makes no communicator yet.
  explicit Grid(horingComm_t global) : global_(global) {}
  ~Grid();
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  // Local: finds the groups. Where they differ in size, isGrid() is false, and shape() counts each rank as a group.
  Status look();
  // Collective: makes the communicators that `row` needs. Refuses a row that needs groups where there is no grid.
  Status connect(const Row& row);

  bool isGrid() const { return is_grid_; }
  int rank() const { return rank_; }
  const Shape& shape() const { return shape_; }
  horingComm_t communicator(horingParoScope_t scope) const;
  // How many ranks it has, and the number of this one's block.
  int sharers(horingParoScope_t scope) const;
  size_t blockIn(horingParoScope_t scope) const;
  // Of the blocks in the global communicator; in the others a rank's block has the number of the rank.
  horingBlockOrder_t order() const { return is_grid_ ? horingRailMajor : horingRankMajor; }
  // Number of this rank's block, in as many as `partition` has: the first element is block * size / divisor.
  size_t block(horingParoPartition_t partition) const;

 private:
  horingComm_t global_;
  horingComm_t group_ = nullptr;
  horingComm_t rail_ = nullptr;
  Shape shape_;
  bool is_grid_ = false;
  int rank_ = 0;
  int group_number_ = 0;
  int local_ = 0;
};

}  // namespace horing::paro
