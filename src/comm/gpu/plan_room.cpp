#include "comm/gpu/plan_room.h"

#include <algorithm>

#include "engine/cuda/bound_plan.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/queue.h"

namespace horing {

namespace {

using cuda::Memory;

bool canBeBound(const cuda::PlanImage& image) {
  return !image.reaches_peers && std::ranges::all_of(image.lanes, [](const cuda::ImageLane& lane) {
    return lane.ports.size() <= static_cast<size_t>(cuda::kMaxPortsOfLane);
  });
}

bool fitsInto(const PlanRoom::Bytes& needed, const PlanRoom::Bytes& room) {
  return needed.gpu <= room.gpu && needed.told <= room.told && needed.bridged <= room.bridged;
}

}  // namespace

PlanRoom::Needs PlanRoom::needsOf(size_t rank, const cuda::PlanImage& image,
                                  std::span<const int32_t> rank_of_position, int32_t parts) const {
  const auto of_plan = cuda::BoundPlan::needsOf(image, parts, static_cast<int32_t>(rank_of_position.size()));
  Needs needs{{of_plan.bytes, Memory::roomOf(of_plan.blocks * sizeof(cuda::Activity)), 0}};
  for (const cuda::ImageLane& lane : image.lanes)
    for (const cuda::PortName& port : lane.ports) {
      const bool is_own = port.queue >= 0;
      const int32_t peer = is_own ? -1 : rank_of_position[static_cast<size_t>(port.position)];
      for (int32_t part = 0; part < parts; ++part) {
        // Both ends of a queue between lanes are made at once.
        const End end{!is_own && port.sends(), peer, is_own ? 0 : port.channel, port.queue, part};
        if (ends_[rank].contains(end) || !needs.ends.insert(end).second) continue;
        needs.bytes.gpu += (is_own ? 2 : 1) * Memory::roomOf(sizeof(cuda::Port));
        if (part >= queues_.parts) continue;  // a spare queue
        if (is_own) {
          needs.bytes.gpu += Memory::roomOf(queues_.own_bytes) + Memory::roomOf(cuda::kQueueCounterBytes);
        } else if (ranks_[rank].proxied[static_cast<size_t>(peer)]) {
          needs.bytes.bridged += queues_.bridged_bytes;
        }
      }
    }
  return needs;
}

bool PlanRoom::take(std::span<const Schedule> schedules, std::span<const int32_t> rank_of_position,
                    int32_t parts) {
  if (ranks_.empty()) return false;
  std::vector<Needs> needs;
  for (size_t position = 0; position < schedules.size(); ++position) {
    const auto rank = static_cast<size_t>(rank_of_position[position]);
    const auto image = cuda::PlanImage::make(schedules[position], rank_of_position, {});
    if (!canBeBound(image)) return false;
    needs.push_back(needsOf(rank, image, rank_of_position, parts));
    if (!fitsInto(needs.back().bytes, ranks_[rank].free)) return false;
  }
  for (size_t position = 0; position < schedules.size(); ++position) {
    const auto rank = static_cast<size_t>(rank_of_position[position]);
    Bytes& free = ranks_[rank].free;
    free.gpu -= needs[position].bytes.gpu;
    free.told -= needs[position].bytes.told;
    free.bridged -= needs[position].bytes.bridged;
    ends_[rank].merge(needs[position].ends);
  }
  return true;
}

}  // namespace horing
