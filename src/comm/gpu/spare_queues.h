#pragma once
// Queues of the parts that a plan has beyond those that any plan may count on. What a rank takes of its GPU for queues has to do for
// algorithms in which each rank sends to each other one; in a ring each sends to one, so its plan may have more parts.
//
// All ranks find out alike what there is and where it lies in each one's memory, so they tell each other nothing. Queues between nodes,
// which hosts carry, lie elsewhere (comm/gpu/bridged_queues.h) and are counted here: each of the two ranks has an end of its own.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
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
  // In so many bytes of each rank's GPU.
  SpareQueues(size_t ranks, const cuda::QueueShape& shape, size_t bytes)
      : SpareQueues(std::vector<size_t>(ranks), shape, bytes, 0) {}
  // Between ranks of one node so; else each rank's host has so many ends of queues.
  SpareQueues(std::vector<size_t> node_of_rank, const cuda::QueueShape& shape, size_t bytes, size_t ends)
      : node_of_rank_(std::move(node_of_rank)),
        shape_(shape),
        most_{bytes, ends},
        used_(node_of_rank_.size()) {}

  bool areAny() const { return most_.bytes > 0; }
  // How many parts, `least` .. `most`, a plan can have: those from `least` on by spare queues, which it takes. `of_part`: the queues of
  // all ranks in one part, whatever its number. No more than `least` where all are between nodes, whose links are slower than a few blocks.
  int32_t take(std::span<const GpuQueueName> of_part, int32_t least, int32_t most);
  // What was taken of late stays for good, or is given back.
  void keep() { taken_.clear(); }
  void giveBack();

  // From the beginning of the receiver's spare memory, and of the sender's, as cuda::layQueue() takes them.
  struct Place {
    size_t receivers;
    size_t senders;
  };
  // Of a queue that has been taken, and lies there.
  const Place& placeOf(const GpuQueueName& name) const;
  bool isBetweenNodes(const GpuQueueName& name) const {
    return node_of_rank_[static_cast<size_t>(name.sender)] !=
           node_of_rank_[static_cast<size_t>(name.receiver)];
  }

 private:
  struct Use {
    size_t bytes = 0;
    size_t ends = 0;  // of queues between nodes
  };
  bool takePart(std::span<const GpuQueueName> of_part, int32_t part);
  Use& usedBy(int rank) { return used_[static_cast<size_t>(rank)]; }

  std::vector<size_t> node_of_rank_;
  cuda::QueueShape shape_;
  Use most_;               // of each rank
  std::vector<Use> used_;  // by rank
  std::map<GpuQueueName, Place> places_;
  std::vector<GpuQueueName> taken_;  // of late, in their order
};

}  // namespace horing
