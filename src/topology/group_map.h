#pragma once
// The groups of ranks. A group is a fast island: the ranks of one node, or under one switch.
//
// Words: *rank* is the communicator's number. Groups are numbered in the order of their lowest rank, but those under one switch one
// after the other; the members of a group by rank, or as the job's map lays them (their *local index*). A *position* is the number a rank gets when groups are
// laid one after the other; algorithms work on positions, so that ranks placed in any order (cyclic, say)
// cost the same.
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

class GroupMap {
 public:
  // One label per rank; ranks with equal labels form a group. Members are ordered by rank, or by ascending `precedence`, a number for each
  // rank (topology/job_map.h). `switches`: the switches above each rank (GroupPlace::switches); a group has the switches of its lowest
  // rank. Fails if there is no rank.
  static Result<GroupMap> fromLabels(std::span<const std::string> label_of_rank,
                                     std::span<const int32_t> precedence = {},
                                     std::span<const std::string> switches = {});
  // ranks 0 .. groups*members-1 in blocks, for tools and tests. Both at least 1.
  static GroupMap blocks(int groups, int members);

  int ranks() const { return static_cast<int>(group_of_rank_.size()); }
  int groups() const { return static_cast<int>(members_.size()); }
  int groupOf(int rank) const { return group_of_rank_[static_cast<size_t>(rank)]; }
  int localIndexOf(int rank) const { return local_of_rank_[static_cast<size_t>(rank)]; }
  std::vector<int32_t> sizes() const;  // by group
  // The ranks of one group, in order.
  std::span<const int> members(int group) const { return members_[static_cast<size_t>(group)]; }
  int groupSize(int group) const { return static_cast<int>(members_[static_cast<size_t>(group)].size()); }

  int rankOfPosition(int position) const { return rank_of_position_[static_cast<size_t>(position)]; }
  int positionOfRank(int rank) const { return position_of_rank_[static_cast<size_t>(rank)]; }

  // True when all groups have the same number of members.
  bool uniform() const { return smallest_group_ == largest_group_; }
  int smallestGroup() const { return smallest_group_; }
  int largestGroup() const { return largest_group_; }
  // By position: the rank's block number in rail-major order. Empty if groups differ in size.
  std::vector<int32_t> railMajorBlocks() const;
  // "2 groups of 4: {0 2 4 6} {1 3 5 7}"; long lists are shortened.
  std::string describe() const;

  bool operator==(const GroupMap&) const = default;

 private:
  std::vector<std::vector<int>> members_;
  std::vector<int> group_of_rank_;
  std::vector<int> local_of_rank_;
  std::vector<int> rank_of_position_;
  std::vector<int> position_of_rank_;
  int smallest_group_ = 0;  // cached, since every call needs it
  int largest_group_ = 0;
};

}  // namespace horing
