#pragma once
// Queues for parts of a plan beyond the guaranteed number. The memory for queues must suffice for algorithms in which each rank sends to
// every other rank; in a ring each rank sends to one, so its plan may have more parts.
//
// All ranks compute the same allocation and layout, without communication. Queues between nodes, which proxies carry, are elsewhere
// (comm/gpu/bridged_queues.h) and only counted here: each of the two ranks has its own end.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/cuda/queue.h"

namespace horing {

// A queue between two ranks, or between two lanes of one rank: each end is in the memory of its rank.
struct GpuQueueName {
  int sender;
  int receiver;
  int32_t channel;  // from kLinkChannels on: a scratch queue
  int32_t part;
  auto operator<=>(const GpuQueueName&) const = default;
};

// The spare queues of all ranks. A value.
class SpareQueues {
 public:
  // No spare queues.
  SpareQueues() = default;
  // In this many bytes of each rank's GPU.
  SpareQueues(size_t ranks, const cuda::QueueShape& shape, size_t bytes)
      : SpareQueues(std::vector<size_t>(ranks), shape, bytes, 0) {}
  // As above between ranks of one node; between nodes, each rank's host has `ends` queue ends.
  SpareQueues(std::vector<size_t> node_of_rank, const cuda::QueueShape& shape, size_t bytes, size_t ends)
      : node_of_rank_(std::move(node_of_rank)),
        shape_(shape),
        most_{bytes, ends},
        used_(node_of_rank_.size()) {}

  bool areAny() const { return most_.bytes > 0; }
  // The number of parts, `least` .. `most`, that a plan can have. Takes spare queues for the parts from `least` on. `of_part`: the queues
  // of all ranks in one part. Returns `least` if all queues are between nodes, whose links a few blocks saturate.
  int32_t take(std::span<const GpuQueueName> of_part, int32_t least, int32_t most);
  // Keeps, or frees, the queues taken since the last call.
  void keep() { taken_.clear(); }
  void giveBack();

  // Offsets in the receiver's and the sender's spare memory, as cuda::layQueue() takes them.
  struct Place {
    size_t receivers;
    size_t senders;
  };
  // The place of a taken queue in spare memory.
  const Place& placeOf(const GpuQueueName& name) const;
  bool joinsNodes(const GpuQueueName& name) const {
    return node_of_rank_[static_cast<size_t>(name.sender)] !=
           node_of_rank_[static_cast<size_t>(name.receiver)];
  }

 private:
  struct Use {
    size_t bytes = 0;
    size_t ends = 0;  // queue ends between nodes
  };
  bool takePart(std::span<const GpuQueueName> of_part, int32_t part);
  Use& usedBy(int rank) { return used_[static_cast<size_t>(rank)]; }

  std::vector<size_t> node_of_rank_;
  cuda::QueueShape shape_;
  Use most_;               // per rank
  std::vector<Use> used_;  // by rank
  std::map<GpuQueueName, Place> places_;
  std::vector<GpuQueueName> taken_;  // since the last keep() or giveBack(), in order
};

}  // namespace horing
