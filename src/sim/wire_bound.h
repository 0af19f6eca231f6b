#pragma once
// The least time that a collective can take on a machine, whatever the algorithm.
#include "base/types.h"
#include "sim/machine_model.h"

namespace horing {

// For D bytes of the whole vector, M nodes: all-gather and reduce-scatter must bring D(M-1)/M bytes into each node (or out of
// it), all-reduce both; broadcast and reduce D; gather and scatter D(M-1)/M at the root's node; all-to-all D(M-1)/M for each of
// a node's ranks, D being what one rank ends with. Over all NICs of a node at once. On one node the same with ranks in place of
// nodes, and their ports. No latency. 0 where the rate is without limit.
Picoseconds wireBound(Collective collective, double bytes, const MachineModel& machine);

}  // namespace horing
