#pragma once
// Room for plans on the GPUs of ranks that are processes: each rank computes, from the schedules of all ranks, whether a plan surely fits
// on every rank's GPU. If it does, ranks need not ask each other whether all have made the plan.
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include "schedule/schedule.h"

namespace horing {

// A value, the same on every rank.
class PlanRoom {
 public:
  // No room.
  PlanRoom() = default;
  // Bytes of GPU memory and of pinned memory of each rank, and of a queue between lanes of a rank.
  PlanRoom(size_t bytes, size_t told_bytes, size_t queue_bytes)
      : bytes_(bytes), told_bytes_(told_bytes), queue_bytes_(queue_bytes) {}

  // Takes room for a plan with these schedules, by position. False: a rank might have no room, and from then on the remaining room is
  // unknown.
  bool take(std::span<const Schedule> schedules, std::span<const int32_t> rank_of_position, int32_t parts);

 private:
  size_t bytes_ = 0, told_bytes_ = 0, queue_bytes_ = 0;
  std::set<std::pair<int32_t, int32_t>> queues_;  // queues between lanes, shared by plans: number, part
};

}  // namespace horing
