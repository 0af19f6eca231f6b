// Pairwise exchange, for all-to-all: every rank sends each other one its block. D(n-1)/n bytes, the least possible, n-1
// messages, one hop.
//
// Peers are taken by growing distance, so that not all begin with the same one; the distances are spread over the lanes. A lane
// sends to the next peer when it has received from the last one, so that as many peers as there are lanes send to a rank at once:
// if all did, switches would drop what they have no room for, and each such packet costs TCP 200 ms.
#include <algorithm>

#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

namespace {
// Of 3 to 8, the most that never lost packets between 4 emulated nodes of 4 ranks; fewer take longer for small blocks.
constexpr int32_t kPeersAtOnce = 6;
static_assert(kPeersAtOnce <= kMaxLanes);
}  // namespace

Schedule buildPairwise(Collective /*collective*/, Shape shape, int32_t position, int32_t /*root*/) {
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
