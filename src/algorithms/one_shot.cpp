// One-shot all-reduce: every rank sends its whole input to every other and folds what it got, in position
// order.
//
// Cost: D(n-1) bytes received per rank, 1 hop: the fastest where a hop costs more than the bytes.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

Schedule buildOneShot(Collective, Shape shape, int32_t position) {
  const int32_t n = shape.ranks();
  Schedule schedule;
  schedule.grid = {1, 1};
  LaneBuilder lane;
  BlockBuilder block = lane.once();
  for (int32_t distance = 1; distance < n; ++distance)
    block.at(0).read(kInput).send((position + distance) % n);
  StepBuilder fold = block.at(0);
  for (int32_t peer = 0; peer < n; ++peer) peer == position ? fold.fold(kInput) : fold.recv(peer);
  fold.complete().keep(kOutput);
  schedule.lanes.push_back(lane.build());
  return schedule;
}

}  // namespace horing
