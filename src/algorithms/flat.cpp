// Algorithms without groups: one level of all ranks.
//
// ring: n-1 hops, each as slow as the slowest link; every link carries D(n-1)/n bytes. direct: one hop; n-1 peers.
// serial_ring (all-reduce): ring in one lane, for what fits one window.
// halving_doubling: about n/2 hops and log2 n peers, any n. doubling (all-reduce): log2 n hops, D bytes in each. all-reduce is
// reduce-scatter and all-gather as two lanes, so that the second starts on a slice as soon as the first is done with it, and costs twice as
// much. What a pattern does is in pattern.h.
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
