// Pairwise exchange, for all-to-all: every rank sends every other rank its block. D(n-1)/n bytes, the least possible, n-1 messages, one
// hop.
//
// Peers are taken by increasing distance, so that not all ranks begin with the same peer; the distances are distributed over the lanes. A
// lane sends to its next peer when it has received from the previous one, so that at most as many peers as there are lanes send to a rank
// at once: if all did, switches would drop packets, and each dropped packet costs TCP 200 ms.
#include <algorithm>

#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {
// The largest of 3 to 8 that never lost packets between 4 emulated nodes of 4 ranks; smaller values are slower for small blocks.
constexpr int32_t kPeersAtOnce = 6;
static_assert(kPeersAtOnce <= kMaxLanes);
}  // namespace

Schedule buildPairwise(Collective /*collective*/, const Shape& shape, int32_t position, int32_t /*root*/) {
  const int32_t n = shape.ranks(), me = position, lanes = std::clamp(n - 1, 1, kPeersAtOnce);
  Schedule schedule{.grid = {n, n}};
  for (int32_t number = 0; number < lanes; ++number) {
    LaneBuilder lane;
    BlockBuilder steps = lane.once();
    if (number == 0) steps.at(me * n + me).read(kInput).keep(kOutput);
    for (int32_t distance = number + 1; distance < n; distance += lanes) {
      const int32_t to = (me + distance) % n, from = (me + n - distance) % n;
      steps.at(me * n + to).read(kInput).send(to);
      steps.at(from * n + me).recv(from).keep(kOutput);
    }
    schedule.lanes.push_back(lane.build());
  }
  return schedule;
}

}  // namespace horing
