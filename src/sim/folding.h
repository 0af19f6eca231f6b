#pragma once
// Symmetry of schedules: if all nodes do the same, one node represents all.
//
// A map of all positions onto themselves that takes node 0 to node a is a symmetry if the schedule of position p, with all
// positions and chunks in it mapped, is the schedule of the position that p goes to. If there is one for every node, and the
// nodes are machines of one kind, then what node 0 does is what every node does, at the same moments: a message that leaves node
// 0 for node a is at the same moment the message that arrives at node 0 from the node that the map takes to 0 when it takes node
// 0 to a. So it is enough to simulate one node that sends to itself.
#include <cstdint>
#include <functional>
#include <utility>

#include "schedule/rails.h"
#include "schedule/schedule.h"

namespace horing {

// A value: the kind of symmetry, and the number of nodes.
class Folding {
 public:
  // kNone: every rank is simulated. kRotation: node i goes to i + a modulo the nodes, as rings have it. kMirror: to i xor a,
  // as halving and doubling have it.
  enum class Kind : uint8_t { kNone, kRotation, kMirror };

  // `rails`: of nodes with different numbers of ranks, up to ranks_per_node; only with kNone.
  Folding(Kind kind, int32_t nodes, int32_t ranks_per_node, Rails rails = {})
      : kind_(kind), nodes_(nodes), members_(ranks_per_node), rails_(std::move(rails)) {}

  Kind kind() const { return kind_; }
  bool folds() const { return kind_ != Kind::kNone; }
  int32_t nodes() const { return nodes_; }
  int32_t ranksPerNode() const { return members_; }
  const Rails& rails() const { return rails_; }
  int32_t ranks() const { return rails_ ? rails_.ranks() : nodes_ * members_; }
  // Positions 0 to this are simulated.
  int32_t simulatedRanks() const { return folds() ? members_ : ranks(); }

  int32_t nodeOf(int32_t position) const { return rails_ ? rails_.groupOf(position) : position / members_; }
  // The simulated position that represents `position`.
  int32_t representative(int32_t position) const { return folds() ? position % members_ : position; }
  // The image of `position` under the map that takes node 0 to node `node`.
  int32_t image(int32_t position, int32_t node) const {
    if (!folds()) return position;
    return imageOfNode(nodeOf(position), node) * members_ + position % members_;
  }
  // The image of node 0 under the map that takes `node` to node 0.
  int32_t inverse(int32_t node) const { return kind_ == Kind::kRotation ? (nodes_ - node) % nodes_ : node; }

 private:
  int32_t imageOfNode(int32_t index, int32_t node) const {
    return kind_ == Kind::kRotation ? (index + node) % nodes_ : index ^ node;
  }

  Kind kind_;
  int32_t nodes_, members_;
  Rails rails_;
};

using ScheduleOf = std::function<Result<Schedule>(int32_t position)>;

// The symmetry of the schedules of all positions. Compares all schedules, so that nothing is assumed; the time grows with the steps in the
// bodies of blocks. With fewer than all nodes it compares the first and this many others, evenly spaced: fast, and right if the other nodes
// are alike. Errors: those of `schedule_of`.
inline constexpr int32_t kAllNodes = INT32_MAX;
Result<Folding> findFolding(int32_t nodes, int32_t ranks_per_node, const ScheduleOf& schedule_of,
                            int32_t other_nodes = kAllNodes);

}  // namespace horing
