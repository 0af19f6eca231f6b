// One-shot all-reduce: every rank sends its whole input to every other rank and folds all inputs in position order.
//
// A rank's own share passes through the output, so that it is rounded (when averaging) like the copies sent to others: otherwise ranks
// would differ in the last bit. Cost: D(n-1) bytes received per rank, 1 hop: the fastest where a hop costs more than the bytes.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

Schedule buildOneShot(Collective /*collective*/, const Shape& shape, int32_t position, int32_t /*root*/) {
  const int32_t n = shape.ranks();
  Schedule schedule;
  schedule.grid = {1, 1};
  LaneBuilder lane;
  BlockBuilder block = lane.once();
  if (n > 1) block.at(0).read(kInput).keep(kOutput).send((position + 1) % n);
  for (int32_t distance = 2; distance < n; ++distance)
    block.at(0).read(kOutput).send((position + distance) % n);
  const Place own = n > 1 ? kOutput : kInput;
  StepBuilder fold = block.at(0);
  for (int32_t peer = 0; peer < n; ++peer) peer == position ? fold.fold(own) : fold.recv(peer);
  fold.complete().keep(kOutput);
  schedule.lanes.push_back(lane.build());
  return schedule;
}

}  // namespace horing
