#include "comm/gpu/plan_room.h"

#include <algorithm>

#include "engine/cuda/bound_plan.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/queue.h"

namespace horing {

namespace {

using cuda::Memory;

// Assumes that no earlier plan has any of the ports.
size_t bytesOfPorts(const cuda::PlanImage& image, int32_t parts) {
  size_t ports = 0;
  for (const cuda::ImageLane& lane : image.lanes) ports += lane.ports.size();
  return ports * static_cast<size_t>(parts) * Memory::roomOf(sizeof(cuda::Port));
}

bool canBeBound(const cuda::PlanImage& image) {
  return !image.reaches_peers && std::ranges::all_of(image.lanes, [](const cuda::ImageLane& lane) {
    return lane.ports.size() <= static_cast<size_t>(cuda::kMaxPortsOfLane);
  });
}

}  // namespace

bool PlanRoom::take(std::span<const Schedule> schedules, std::span<const int32_t> rank_of_position,
                    int32_t parts) {
  if (bytes_ == 0) return false;
  cuda::BoundPlan::Needs most;
  bool fits = true;
  std::set<std::pair<int32_t, int32_t>> queues;
  for (const Schedule& schedule : schedules) {
    const auto image = cuda::PlanImage::make(schedule, rank_of_position, {});
    fits = fits && canBeBound(image);
    cuda::BoundPlan::Needs needs = cuda::BoundPlan::needsOf(image, parts, schedule.ranks);
    needs.bytes += bytesOfPorts(image, parts);
    most = {std::max(most.bytes, needs.bytes), std::max(most.blocks, needs.blocks)};
    for (const cuda::ImageLane& lane : image.lanes)
      for (const cuda::PortName& port : lane.ports)
        for (int32_t part = 0; port.queue >= 0 && part < parts; ++part)
          if (!queues_.contains({port.queue, part})) queues.emplace(port.queue, part);
  }
  const size_t bytes_of_queue = Memory::roomOf(queue_bytes_) + Memory::roomOf(cuda::kQueueCounterBytes);
  most.bytes += queues.size() * bytes_of_queue;
  const size_t told = Memory::roomOf(most.blocks * sizeof(cuda::Activity));
  fits = fits && most.bytes <= bytes_ && told <= told_bytes_;
  bytes_ = fits ? bytes_ - most.bytes : 0;
  told_bytes_ -= fits ? told : 0;
  queues_.merge(queues);
  return fits;
}

}  // namespace horing
