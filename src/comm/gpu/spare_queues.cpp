#include "comm/gpu/spare_queues.h"

#include "base/check.h"

namespace horing {

int32_t SpareQueues::take(std::span<const GpuQueueName> of_part, int32_t least, int32_t most) {
  int32_t parts = least;
  while (parts < most && areAny() && takePart(of_part, parts)) ++parts;
  return parts;
}

// All of it, or nothing.
bool SpareQueues::takePart(std::span<const GpuQueueName> of_part, int32_t part) {
  const std::vector<size_t> used = used_;
  const size_t taken = taken_.size();
  bool fits = true;
  for (GpuQueueName name : of_part) {
    name.part = part;
    // Another plan's: they run one after the other, and leave it empty.
    if (places_.contains(name)) continue;
    size_t& receivers = used_[static_cast<size_t>(name.receiver)];
    const size_t at_receiver = receivers;
    receivers += cuda::queueBytes(shape_);
    size_t& senders = used_[static_cast<size_t>(name.sender)];
    places_.emplace(name, Place{at_receiver, senders});
    senders += cuda::kQueueCounterBytes;
    taken_.push_back(name);
    fits = fits && receivers <= bytes_ && senders <= bytes_;
  }
  if (fits) return true;
  for (; taken_.size() > taken; taken_.pop_back()) places_.erase(taken_.back());
  used_ = used;
  return false;
}

void SpareQueues::giveBack() {
  for (const GpuQueueName& name : taken_) {
    places_.erase(name);
    used_[static_cast<size_t>(name.receiver)] -= cuda::queueBytes(shape_);
    used_[static_cast<size_t>(name.sender)] -= cuda::kQueueCounterBytes;
  }
  taken_.clear();
}

const SpareQueues::Place& SpareQueues::placeOf(const GpuQueueName& name) const {
  const auto found = places_.find(name);
  HORING_CHECK(found != places_.end());
  return found->second;
}

}  // namespace horing
