#include "sim/folded_network.h"

#include <algorithm>

#include "schedule/network.h"

namespace horing {

Result<FoldedNetwork> FoldedNetwork::build(std::span<const Schedule> schedules, const Folding& folding) {
  if (schedules.empty() || schedules.size() != static_cast<size_t>(folding.simulatedRanks()))
    return makeStatus(Code::kInvalidArgument, "%zu schedules for %d ranks to simulate", schedules.size(),
                      folding.simulatedRanks());
  FoldedNetwork network(schedules, folding);
  for (const Schedule& schedule : schedules)
    network.lanes_ = std::max(network.lanes_, static_cast<int32_t>(schedule.lanes.size()));
  for (int32_t position = 0; position < folding.simulatedRanks(); ++position) {
    const Schedule& schedule = schedules[static_cast<size_t>(position)];
    if (schedule.lanes.size() > kMaxLanes || schedule.lanes.empty() || schedule.ranks != folding.ranks())
      return makeStatus(
          Code::kInvalidArgument,
          "the schedule of position %d has %zu lanes for %d ranks; expected 1 to %zu lanes for %d", position,
          schedule.lanes.size(), schedule.ranks, size_t{kMaxLanes}, folding.ranks());
  }
  for (int32_t id = 0; id < network.lanes(); ++id) HORING_TRY(network.checkAndNumber(id));
  for (int32_t id = 0; id < network.lanes(); ++id) network.connect(id);
  network.findWiresBack();
  network.wire_number_.clear();
  return network;
}

// Connections are numbered as their senders use them, so that those of all nodes are in the same order.
Status FoldedNetwork::checkAndNumber(int32_t lane_id) {
  for (const Block& block : lane(lane_id).blocks)
    for (const Step& step : block.body) {
      HORING_TRY(check(lane_id, step, block));
      if (step.send_to >= 0) sendWire(lane_id, step.send_to);
      for (const int32_t peer : step.signal_to) sendWire(lane_id, peer);
    }
  return {};
}

void FoldedNetwork::connect(int32_t lane_id) {
  first_step_.push_back(step_wires_.size());
  for (const Block& block : lane(lane_id).blocks)
    for (const Step& step : block.body) connect(lane_id, step);
}

Status FoldedNetwork::check(int32_t lane_id, const Step& step, const Block& block) const {
  const Schedule& schedule = scheduleOf(lane_id);
  const int32_t own = positionOf(lane_id);
  const auto is_peer = [&](int32_t peer) { return peer >= 0 && peer < folding_.ranks() && peer != own; };
  bool is_right = step.chunk >= 0 && step.chunk < schedule.grid.chunks();
  for (const Source& source : step.sources) {
    if (takesMessage(source)) is_right = is_right && is_peer(source.index);
    if (source.kind == Source::Kind::kScratch)
      is_right = is_right && source.index >= 0 && source.index < schedule.scratch_queues;
  }
  for (const int32_t peer : step.signal_to) is_right = is_right && is_peer(peer);
  if (step.send_to != -1) is_right = is_right && is_peer(step.send_to);
  if (step.keep.kind == Keep::Kind::kScratch)
    is_right = is_right && step.keep.index >= 0 && step.keep.index < schedule.scratch_queues;
  if (const Wait& wait = step.wait; wait.lane >= 0) {
    const int64_t last = wait.step + int64_t{wait.stride} * (std::max(block.count, 1) - 1);
    is_right = is_right && wait.lane < static_cast<int32_t>(schedule.lanes.size()) &&
               wait.lane != laneOf(lane_id) && wait.step >= 0 && last >= 0;
    if (is_right) {
      const int32_t steps = schedule.lanes[static_cast<size_t>(wait.lane)].stepCount();
      is_right = wait.step < steps && last < steps;
    }
  }
  if (is_right) return {};
  return makeStatus(Code::kInvalidArgument,
                    "%s names a peer, a chunk, a scratch queue or a step that does not exist ('horing-plan "
                    "verify' says which)",
                    stepName(schedule, laneOf(lane_id), 0).c_str());
}

void FoldedNetwork::connect(int32_t lane_id, const Step& step) {
  StepWires& wires = step_wires_.emplace_back();
  wires.first_send = static_cast<int32_t>(wire_of_.size());
  if (step.send_to >= 0) wire_of_.push_back(sendWire(lane_id, step.send_to));
  for (const int32_t peer : step.signal_to) wire_of_.push_back(sendWire(lane_id, peer));
  wires.sends = static_cast<int32_t>(wire_of_.size()) - wires.first_send;
  wires.first_recv = static_cast<int32_t>(wire_of_.size());
  for (const Source& source : step.sources)
    if (takesMessage(source)) wire_of_.push_back(recvWire(source.index, lane_id));
  wires.recvs = static_cast<int32_t>(wire_of_.size()) - wires.first_recv;
}

int32_t FoldedNetwork::sendWire(int32_t lane_id, int32_t to) {
  const int32_t number = wire(positionOf(lane_id), to, laneOf(lane_id));
  wires_[static_cast<size_t>(number)].from_lane = lane_id;
  return number;
}

// A message that arrives from another node is a message that leaves this node, seen from there.
int32_t FoldedNetwork::recvWire(int32_t from, int32_t lane_id) {
  const int32_t number =
      wire(folding_.representative(from), seenFrom(from, positionOf(lane_id)), laneOf(lane_id));
  wires_[static_cast<size_t>(number)].to_lane = lane_id;
  return number;
}

// What `position` is for the rank that represents `from`.
int32_t FoldedNetwork::seenFrom(int32_t from, int32_t position) const {
  return folding_.image(position, folding_.inverse(folding_.nodeOf(from)));
}

void FoldedNetwork::findWiresBack() {
  for (const Wire& there : wires_) {
    first_back_.push_back(static_cast<int32_t>(wires_back_.size()));
    for (int32_t lane = 0; there.crosses_nodes && lane < lanes_; ++lane) {
      const auto back =
          wire_number_.find(keyOf(folding_.representative(there.to), seenFrom(there.to, there.from), lane));
      if (back != wire_number_.end()) wires_back_.push_back(back->second);
    }
  }
  first_back_.push_back(static_cast<int32_t>(wires_back_.size()));
}

uint64_t FoldedNetwork::keyOf(int32_t from, int32_t to, int32_t lane_number) const {
  return (static_cast<uint64_t>(from) * static_cast<uint64_t>(folding_.ranks()) + static_cast<uint64_t>(to)) *
             kMaxLanes +
         static_cast<uint64_t>(lane_number);
}

int32_t FoldedNetwork::wire(int32_t from, int32_t to, int32_t lane_number) {
  const auto [found, is_new] =
      wire_number_.try_emplace(keyOf(from, to, lane_number), static_cast<int32_t>(wires_.size()));
  if (is_new) wires_.push_back({-1, -1, from, to, folding_.nodeOf(from) != folding_.nodeOf(to)});
  return found->second;
}

}  // namespace horing
