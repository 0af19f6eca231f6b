// Direct exchange: the ring's traffic in one hop. Every rank sends each other rank its chunk, so a rank has
// n-1 peers.
//
// Cost: D(n-1)/n bytes received per rank, all-reduce twice that; 1 hop, all-reduce 2; n-1 messages per rank
// and phase. The fold order of chunk c is that of the ring: c+1, ..., c, folded in one pass and so rounded
// once.
#include "algorithms/catalogue.h"
#include "algorithms/pattern.h"

namespace horing {

Schedule buildDirect(Collective collective, Shape shape, int32_t position) {
  const Members all{0, shape.ranks(), position};
  Schedule schedule;
  schedule.grid = {1, all.size};
  LaneBuilder first, second;
  if (collective == Collective::kAllGather) {
    gatherRow(first.once(), Pattern::kDirect, all, 0, kInput, {});
  } else {
    reduceRow(first.once(), Pattern::kDirect, all, 0, kOutput).complete();
    if (collective == Collective::kAllReduce)
      gatherRow(second.once(), Pattern::kDirect, all, 0, kOutput, {0, first.build().stepCount() - 1});
  }
  schedule.lanes.push_back(first.build());
  if (Lane lane = second.build(); !lane.blocks.empty()) schedule.lanes.push_back(lane);
  return schedule;
}

}  // namespace horing
