#pragma once
// Room for plans on the GPUs of ranks that met by an ID: each rank computes, from the schedules of all ranks and from what all told each
// other when they agreed on kernels, whether a plan fits on every rank. So all come to the same answer, and no call waits for another rank.
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/cuda/plan_image.h"

namespace horing {

// A value, the same on every rank.
class PlanRoom {
 public:
  // Of a rank's GPU; pinned, for activity words; and pinned, for its ends of queues that proxies carry.
  struct Bytes {
    size_t gpu = 0, told = 0, bridged = 0;
  };
  struct Rank {
    Bytes free;
    std::vector<bool> proxied;  // by rank: whether proxies carry the queues to it
  };
  struct Queues {
    size_t own_bytes = 0;      // between lanes of a rank, without the sender's counter
    size_t bridged_bytes = 0;  // an end that proxies carry
    int32_t parts = 0;         // queues of further parts are spare ones, which have memory of their own
  };

  // No room.
  PlanRoom() = default;
  PlanRoom(std::vector<Rank> ranks, const Queues& queues)
      : queues_(queues), ranks_(std::move(ranks)), ends_(ranks_.size()) {}

  // Takes room for a plan with these schedules, by position. False, and nothing is taken: some rank has not so much, or kernels cannot run it.
  bool take(std::span<const Schedule> schedules, std::span<const int32_t> rank_of_position, int32_t parts);

 private:
  // An end of a queue of a rank: whether it sends, the peer (-1: itself), the channel, the queue between lanes (-1: none), the part.
  using End = std::tuple<bool, int32_t, int32_t, int32_t, int32_t>;
  struct Needs {
    Bytes bytes;
    std::set<End> ends{};  // that no earlier plan has
  };
  Needs needsOf(size_t rank, const cuda::PlanImage& image, std::span<const int32_t> rank_of_position,
                int32_t parts) const;

  Queues queues_;
  std::vector<Rank> ranks_;
  std::vector<std::set<End>> ends_;  // of plans so far, by rank; plans share queues
};

}  // namespace horing
