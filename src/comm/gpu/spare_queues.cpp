#include "comm/gpu/spare_queues.h"

#include <algorithm>

#include "base/check.h"

namespace horing {

int32_t SpareQueues::take(std::span<const GpuQueueName> of_part, int32_t least, int32_t most) {
  if (!areAny() || std::ranges::all_of(of_part, [&](const auto& name) { return joinsNodes(name); }))
    return least;
  int32_t parts = least;
  while (parts < most && takePart(of_part, parts)) ++parts;
  return parts;
}

// Takes all queues of a part, or none.
bool SpareQueues::takePart(std::span<const GpuQueueName> of_part, int32_t part) {
  const std::vector<Use> used = used_;
  const size_t taken = taken_.size();
  bool fits = true;
  for (GpuQueueName name : of_part) {
    name.part = part;
    // Already another plan's queue: plans run one at a time, and leave queues empty.
    if (places_.contains(name)) continue;
    Use &receiver = usedBy(name.receiver), &sender = usedBy(name.sender);
    Place at{};
    if (joinsNodes(name)) {
      ++receiver.ends;
      ++sender.ends;
    } else {
      at.receivers = receiver.bytes;
      receiver.bytes += cuda::queueBytes(shape_);
      at.senders = sender.bytes;
      sender.bytes += cuda::kQueueCounterBytes;
    }
    places_.emplace(name, at);
    taken_.push_back(name);
    for (const Use* const rank : {&receiver, &sender})
      fits = fits && rank->bytes <= most_.bytes && rank->ends <= most_.ends;
  }
  if (fits) return true;
  for (; taken_.size() > taken; taken_.pop_back()) places_.erase(taken_.back());
  used_ = used;
  return false;
}

void SpareQueues::giveBack() {
  for (const GpuQueueName& name : taken_) {
    places_.erase(name);
    if (joinsNodes(name)) {
      --usedBy(name.receiver).ends;
      --usedBy(name.sender).ends;
    } else {
      usedBy(name.receiver).bytes -= cuda::queueBytes(shape_);
      usedBy(name.sender).bytes -= cuda::kQueueCounterBytes;
    }
  }
  taken_.clear();
}

const SpareQueues::Place& SpareQueues::placeOf(const GpuQueueName& name) const {
  const auto found = places_.find(name);
  HORING_CHECK(found != places_.end());
  return found->second;
}

}  // namespace horing
