#pragma once
// A lower bound for the time of a collective on a machine, for any algorithm.
#include "base/types.h"
#include "sim/machine_model.h"

namespace horing {

// For D bytes of the whole vector, M nodes: all-gather and reduce-scatter must bring D(M-1)/M bytes into each node (or out of it),
// all-reduce both; broadcast and reduce D; gather and scatter D(M-1)/M at the root's node; all-to-all D(M-1)/M for each of a node's ranks,
// where D is the output of one rank. All NICs of a node work in parallel. On one node the same with ranks and their ports in place of
// nodes. No latency. 0 if the rate is unlimited.
Picoseconds wireBound(Collective collective, double bytes, const MachineModel& machine);

}  // namespace horing
