#pragma once
// Queues of the parts that a plan has beyond those that any plan may count on. What a rank takes of its GPU for queues has to do for
// algorithms in which each rank sends to each other one; in a ring each sends to one, so its plan may have more parts.
//
// All ranks find out alike what there is and where it lies in each one's memory, so they tell each other nothing.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/cuda/queue.h"

namespace horing {

// A queue between two ranks, or two lanes of one: each end lies with its rank.
struct GpuQueueName {
  int sender;
  int receiver;
  int32_t channel;  // from kLinkChannels on: of a scratch queue
  int32_t part;
  auto operator<=>(const GpuQueueName&) const = default;
};

// Of all ranks. A value.
class SpareQueues {
 public:
  // None.
  SpareQueues() = default;
  // In so many bytes of each rank's memory.
  SpareQueues(size_t ranks, const cuda::QueueShape& shape, size_t bytes)
      : shape_(shape), bytes_(bytes), used_(ranks) {}

  bool areAny() const { return bytes_ > 0; }
  // How many parts, `least` .. `most`, a plan can have: those from `least` on by spare queues, which it takes. `of_part`: the queues of
  // all ranks in one part, whatever its number.
  int32_t take(std::span<const GpuQueueName> of_part, int32_t least, int32_t most);
  // What was taken of late stays for good, or is given back.
  void keep() { taken_.clear(); }
  void giveBack();

  // From the beginning of the receiver's spare memory, and of the sender's, as cuda::layQueue() takes them.
  struct Place {
    size_t receivers;
    size_t senders;
  };
  // Of a queue that has been taken.
  const Place& placeOf(const GpuQueueName& name) const;

 private:
  bool takePart(std::span<const GpuQueueName> of_part, int32_t part);

  cuda::QueueShape shape_;
  size_t bytes_ = 0;
  std::vector<size_t> used_;  // by rank
  std::map<GpuQueueName, Place> places_;
  std::vector<GpuQueueName> taken_;  // of late, in their order
};

}  // namespace horing
