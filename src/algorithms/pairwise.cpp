// Pairwise exchange, for all-to-all: every rank sends every other rank its block. D(n-1)/n bytes, the least possible, n-1 messages, one
// hop.
//
// Peers are taken by increasing distance, so that not all ranks begin with the same peer; the distances are distributed over the lanes. A
// lane sends to its next peer when it has received from the previous one, so that at most as many peers as there are lanes send to a rank
// at once: if all did, switches would drop packets, and each dropped packet costs TCP 200 ms. What enters a group shares its link, so
// `ho_pairwise`, which knows the groups, has lanes of their own for the peers in other groups: fewer where groups have more ranks.
#include <algorithm>
#include <vector>

#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {

// Smaller values are slower for small blocks.
constexpr int32_t kPeersAtOnce = 6;
// Into a group. Of 4, 8, 12 and 6 for each rank, the fastest for large blocks between most emulated nodes (bench/results/all_to_all.txt).
constexpr int32_t kStreamsAtOnce = 8;
static_assert(kPeersAtOnce + 1 <= kMaxLanes);

// The peers of one lane: those in other groups, or those in this rank's group.
struct Peers {
  bool in_other_groups;
  int32_t first;  // distance
  int32_t stride;
};

std::vector<Peers> lanesOf(const Shape& shape) {
  int32_t between = 0;
  if (shape.groups > 1) between = std::clamp(kStreamsAtOnce / shape.members, 1, kPeersAtOnce);
  const int32_t inside =
      std::clamp(shape.members - 1, between == 0 ? 1 : 0, std::max(kPeersAtOnce - between, 1));
  std::vector<Peers> lanes;
  for (int32_t number = 0; number < between; ++number) lanes.push_back({true, number + 1, between});
  for (int32_t number = 0; number < inside; ++number) lanes.push_back({false, number + 1, inside});
  return lanes;
}

}  // namespace

Schedule buildPairwise(Collective /*collective*/, const Shape& shape, int32_t position, int32_t /*root*/) {
  const int32_t n = shape.ranks(), me = position, my_group = shape.groupOf(me);
  const auto is_of = [&](const Peers& peers, int32_t peer) {
    return (shape.groupOf(peer) != my_group) == peers.in_other_groups;
  };
  Schedule schedule{.grid = {n, n}};
  for (const Peers& peers : lanesOf(shape)) {
    LaneBuilder lane;
    BlockBuilder steps = lane.once();
    if (schedule.lanes.empty()) steps.at(me * n + me).read(kInput).keep(kOutput);
    for (int32_t distance = peers.first; distance < n; distance += peers.stride) {
      const int32_t to = (me + distance) % n, from = (me + n - distance) % n;
      if (is_of(peers, to)) steps.at(me * n + to).read(kInput).send(to);
      if (is_of(peers, from)) steps.at(from * n + me).recv(from).keep(kOutput);
    }
    schedule.lanes.push_back(lane.build());
  }
  return schedule;
}

}  // namespace horing
