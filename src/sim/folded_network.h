#pragma once
// The simulated schedules, checked for shape, with their lanes and connections numbered. Like schedule/network.h, but for one node that
// represents all (folding.h), and without proofs.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "schedule/schedule.h"
#include "sim/folding.h"

namespace horing {

// A connection between two lanes. Positions are in the sender's view.
struct Wire {
  int32_t from_lane = -1;  // id; -1: no sender
  int32_t to_lane = -1;
  int32_t from = 0;  // position, simulated
  int32_t to = 0;    // position, of all
  bool crosses_nodes = false;
};

// The connections of a step of a block's body: ranges of wireOf().
struct StepWires {
  int32_t first_send = 0;
  int32_t sends = 0;
  int32_t first_recv = 0;  // one for each source that receives a message, in order
  int32_t recvs = 0;
};

// A value over borrowed schedules, which must outlive it.
class FoldedNetwork {
 public:
  // `schedules`: of positions 0 to folding.simulatedRanks(). Errors name position, lane and step: a wrong number of schedules or lanes;
  // unknown peers, waits and scratch queues.
  static Result<FoldedNetwork> build(std::span<const Schedule> schedules, const Folding& folding);

  const Folding& folding() const { return folding_; }
  std::span<const Schedule> schedules() const { return schedules_; }
  int32_t lanesOfRank() const { return lanes_; }  // the most of any
  int32_t lanes() const { return lanes_ * static_cast<int32_t>(schedules_.size()); }
  int32_t positionOf(int32_t lane_id) const { return lane_id / lanes_; }
  int32_t laneOf(int32_t lane_id) const { return lane_id % lanes_; }
  int32_t laneId(int32_t position, int32_t lane) const { return position * lanes_ + lane; }
  const Schedule& scheduleOf(int32_t lane_id) const {
    return schedules_[static_cast<size_t>(positionOf(lane_id))];
  }
  // Empty if the rank has fewer lanes than others, as a rank alone on its node has.
  const Lane& lane(int32_t lane_id) const {
    const std::vector<Lane>& lanes = scheduleOf(lane_id).lanes;
    const auto number = static_cast<size_t>(laneOf(lane_id));
    return number < lanes.size() ? lanes[number] : none_;
  }

  std::span<const Wire> wires() const { return wires_; }
  // Indexed by StepCursor::written().
  const StepWires& stepWires(int32_t lane_id, size_t written) const {
    return step_wires_[first_step_[static_cast<size_t>(lane_id)] + written];
  }
  int32_t wireAt(int32_t index) const { return wire_of_[static_cast<size_t>(index)]; }
  // The connections from the receiving rank to the sending one; none if they are on one node.
  std::span<const int32_t> wiresBack(int32_t wire) const {
    const auto first = static_cast<size_t>(first_back_[static_cast<size_t>(wire)]);
    const auto end = static_cast<size_t>(first_back_[static_cast<size_t>(wire) + 1]);
    return std::span(wires_back_).subspan(first, end - first);
  }

 private:
  FoldedNetwork(std::span<const Schedule> schedules, const Folding& folding)
      : schedules_(schedules), folding_(folding) {}
  Status checkAndNumber(int32_t lane_id);
  void connect(int32_t lane_id);
  Status check(int32_t lane_id, const Step& step, const Block& block) const;
  void connect(int32_t lane_id, const Step& step);
  int32_t sendWire(int32_t lane_id, int32_t to);
  int32_t recvWire(int32_t from, int32_t lane_id);
  int32_t wire(int32_t from, int32_t to, int32_t lane);
  int32_t seenFrom(int32_t from, int32_t position) const;
  uint64_t keyOf(int32_t from, int32_t to, int32_t lane) const;
  void findWiresBack();

  Lane none_;
  std::span<const Schedule> schedules_;
  Folding folding_;
  int32_t lanes_ = 0;  // of a rank
  std::vector<Wire> wires_;
  std::unordered_map<uint64_t, int32_t> wire_number_;
  std::vector<size_t> first_step_;  // of a lane
  std::vector<StepWires> step_wires_;
  std::vector<int32_t> wire_of_;
  std::vector<int32_t> first_back_;  // of a wire; and the end of the last
  std::vector<int32_t> wires_back_;
};

}  // namespace horing
