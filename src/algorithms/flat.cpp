// Algorithms without groups: one level of all ranks.
//
//   ring:                     n-1 hops, each as slow as the slowest link; every link carries D(n-1)/n bytes
//   serial_ring (all-reduce): ring in one lane, for vectors that fit one window
//   direct:                   one hop, n-1 peers
//   halving_doubling:         about n/2 hops and log2 n peers, any n
//   doubling (all-reduce):    log2 n hops, D bytes in each
// An all-reduce is a reduce-scatter and an all-gather in two lanes, and costs twice as much: the all-gather starts on a slice as soon as
// the reduce-scatter is done with it. pattern.h describes the patterns.
#include "algorithms/catalogue.h"
#include "algorithms/nest.h"
#include "algorithms/one_lane.h"

namespace horing {

namespace {
Schedule flat(Collective collective, const Shape& shape, int32_t position, Pattern pattern) {
  const Level all{shape.ranks(), pattern};
  return buildNest(collective, {&all, 1}, position);
}
}  // namespace

Schedule buildRing(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return flat(collective, shape, position, Pattern::kRing);
}

Schedule buildSerialRing(Collective collective, const Shape& shape, int32_t position, int32_t root) {
  return inOneLane(buildRing(collective, shape, position, root));
}

Schedule buildDirect(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return flat(collective, shape, position, Pattern::kDirect);
}

Schedule buildHalvingDoubling(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return flat(collective, shape, position, Pattern::kHalving);
}

Schedule buildDoubling(Collective collective, const Shape& shape, int32_t position, int32_t /*root*/) {
  return flat(collective, shape, position, Pattern::kDoubling);
}

}  // namespace horing
