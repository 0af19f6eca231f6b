// Everything through position 0: every other rank sends it its whole input, and it sends the sum to each of them.
//
// For tiny messages of many ranks on few cores, where what counts is how often a rank must get its turn: position 0
// once, after all others have sent; each of the others twice, to send and to take. 2 hops, 2(n-1) messages in all, where
// direct exchange has 2n(n-1). Folded in position order, in one pass.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

Schedule buildStar(Collective, Shape shape, int32_t position) {
  const int32_t n = shape.ranks();
  constexpr int32_t kCentre = 0;
  Schedule schedule;
  schedule.grid = {1, 1};
  LaneBuilder lane;
  if (position == kCentre) {
    StepBuilder fold = lane.at(0).read(kInput);
    for (int32_t peer = 1; peer < n; ++peer) fold.recv(peer);
    fold.complete().keep(kOutput);
    if (n > 1) fold.send(1);
    for (int32_t peer = 2; peer < n; ++peer) lane.at(0).read(kOutput).send(peer);
  } else {
    lane.at(0).read(kInput).send(kCentre);
    lane.at(0).recv(kCentre).keep(kOutput);
  }
  schedule.lanes.push_back(lane.build());
  return schedule;
}

}  // namespace horing
