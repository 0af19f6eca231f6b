// Pairwise exchange, for all-to-all: every rank sends each other one its block. D(n-1)/n bytes, the least possible, n-1
// messages, one hop.
//
// Peers are taken by growing distance, so that not all begin with the same one; the distances are spread over the
// lanes, so that one slow peer delays few others.
#include <algorithm>

#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

Schedule buildPairwise(Collective /*collective*/, Shape shape, int32_t position, int32_t /*root*/) {
  const int32_t n = shape.ranks(), me = position, lanes = std::clamp(n - 1, 1, kMaxLanes);
  Schedule schedule{.grid = {n, n}};
  for (int32_t number = 0; number < lanes; ++number) {
    LaneBuilder lane;
    BlockBuilder steps = lane.once();
    if (number == 0) steps.at(me * n + me).read(kInput).keep(kOutput);
    for (int32_t distance = number + 1; distance < n; distance += lanes) {
      const int32_t to = (me + distance) % n;
      steps.at(me * n + to).read(kInput).send(to);
    }
    for (int32_t distance = number + 1; distance < n; distance += lanes) {
      const int32_t from = (me + n - distance) % n;
      steps.at(from * n + me).recv(from).keep(kOutput);
    }
    schedule.lanes.push_back(lane.build());
  }
  return schedule;
}

}  // namespace horing
