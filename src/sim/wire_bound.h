#pragma once
// A lower bound for the time of a collective on a machine, for any algorithm.
#include "base/types.h"
#include "sim/machine_model.h"

namespace horing {

// For D bytes of the whole vector on M nodes, the longest of what each node and all nodes together must send and receive. A node: all-gather
// D less its own share into it, and its share out; reduce-scatter the other way round; all-reduce D out and D in; broadcast and reduce D;
// gather and scatter D less its own share at the root's node, which is node 0; all-to-all D less its own share for each of its ranks, where D
// is the output of one rank. All nodes: (M-1)D for all-gather, reduce-scatter, broadcast and reduce, 2(M-1)D for all-reduce. All NICs of a
// node work in parallel, at the rates of its links. On one node the same with ranks and their ports in place of nodes. No latency. 0 if the
// rate is unlimited.
Picoseconds wireBound(Collective collective, double bytes, const MachineModel& machine);

}  // namespace horing
