#pragma once
// The schedules of all ranks side by side, checked for shape and with their connections numbered: the input of both proofs of
// schedule/verify.h.
//
// Lanes of all ranks are numbered through: lane `l` of position `p` is laneId(p, l). A connection is (from,
// to, lane).
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace horing {

inline constexpr int32_t kMaxVerifiedRanks = 4096;
inline constexpr int32_t kMaxScratchQueues = 1024;
inline constexpr int32_t kMaxChunks = 1 << 24;
inline constexpr int32_t kMaxLaneSteps = 32767;     // of one lane, repeats counted
inline constexpr int64_t kMaxTotalSteps = 1 << 26;  // of all ranks

struct ConnectionEnds {
  int32_t from = -1;  // position
  int32_t to = -1;
  int32_t lane = -1;
  bool sends = false;     // `from` has steps that send on it
  bool receives = false;  // `to` has steps that receive from it
};

// One scratch queue: the lanes (ids) that fill and empty it; -1: none.
struct ScratchEnds {
  int32_t producer = -1;
  int32_t consumer = -1;
};

// The connections of one step of a block's body.
struct StepPorts {
  int32_t first_send =
      0;  // into sendConnections(): the connection of send_to, if any, then of each signal_to
  int32_t sends = 0;
  int32_t first_recv = 0;  // into recvConnection(), one for each source that receives a message, in order
};

// A value over borrowed schedules, which must outlive it.
class Network {
 public:
  // Errors name position, lane and step: schedules of different shapes, anything over its limit, peers, chunks, queues and waits that do
  // not exist, a step that sends to itself, reads nothing, or stores and sends nothing, reads one connection or queue twice, or moves data
  // in a signal lane; a scratch queue with several lanes at one end.
  static Result<Network> build(std::span<const Schedule> all_ranks);

  std::span<const Schedule> schedules() const { return schedules_; }
  const Schedule& schedule(int32_t position) const { return schedules_[static_cast<size_t>(position)]; }
  int32_t ranks() const { return static_cast<int32_t>(schedules_.size()); }
  int32_t lanes() const { return static_cast<int32_t>(lane_position_.size()); }
  int32_t laneId(int32_t position, int32_t lane) const {
    return first_lane_[static_cast<size_t>(position)] + lane;
  }
  int32_t positionOf(int32_t lane_id) const { return lane_position_[static_cast<size_t>(lane_id)]; }
  int32_t laneOf(int32_t lane_id) const {
    return lane_id - first_lane_[static_cast<size_t>(positionOf(lane_id))];
  }
  const Lane& lane(int32_t lane_id) const {
    return schedule(positionOf(lane_id)).lanes[static_cast<size_t>(laneOf(lane_id))];
  }
  StepCursor cursor(int32_t lane_id) const { return {lane(lane_id), schedule(positionOf(lane_id)).grid}; }

  std::span<const ConnectionEnds> connections() const { return connections_; }
  const StepPorts& ports(int32_t lane_id, const StepCursor& cursor) const {
    const size_t block = first_block_[static_cast<size_t>(lane_id)] + cursor.block();
    return ports_[first_port_[block] + cursor.bodyIndex()];
  }
  std::span<const int32_t> sendConnections(const StepPorts& ports) const {
    return {send_connections_.data() + ports.first_send, static_cast<size_t>(ports.sends)};
  }
  int32_t recvConnection(int32_t index) const { return recv_connections_[static_cast<size_t>(index)]; }

  // A number of a scratch queue, unique over all positions.
  int32_t scratchId(int32_t position, int32_t queue) const {
    return first_scratch_[static_cast<size_t>(position)] + queue;
  }
  std::span<const ScratchEnds> scratchQueues() const { return scratch_; }

 private:
  Status addRank(const Schedule& schedule, int32_t position);
  Status addScratch(const Schedule& schedule, int32_t position);
  void connect();

  std::span<const Schedule> schedules_;
  std::vector<int32_t> first_lane_, lane_position_;
  std::vector<size_t> first_block_, first_port_;
  std::vector<StepPorts> ports_;
  std::vector<int32_t> send_connections_, recv_connections_;
  std::vector<ConnectionEnds> connections_;
  std::vector<int32_t> first_scratch_;
  std::vector<ScratchEnds> scratch_;
};

// "ring all_reduce, position 3, lane 1, step 5"; for messages.
std::string stepName(const Schedule& schedule, int32_t lane, int32_t step);

// A blocked lane: what it waits for, and the lane that would have to make progress (-1: none can).
struct Blockage {
  std::string reason;
  int32_t on = -1;
};
// Follows the chain of waits from `start` until a lane repeats or no lane can make progress, and formats the chain. `blockage_of(lane_id)`
// explains one lane.
std::string describeBlockage(int32_t start, const std::function<Blockage(int32_t)>& blockage_of);

}  // namespace horing
