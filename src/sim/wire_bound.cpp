#include "sim/wire_bound.h"

#include <algorithm>
#include <cmath>

namespace horing {

namespace {

// The part of D bytes of the whole vector that must enter (or leave) the busiest of `parts` parts, each of `members` ranks.
double bytesInto(Collective collective, double bytes, double parts, double members) {
  const double others = bytes * (parts - 1) / parts;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScatter:
      return others;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return parts > 1 ? bytes : 0;
    case Collective::kAllToAll:
      return others * members;
  }
  return 0;
}

}  // namespace

Picoseconds wireBound(Collective collective, double bytes, const MachineModel& machine) {
  double time = 0;
  if (machine.nodes > 1) {
    const double nics = machine.nic == Owner::kNode ? 1 : machine.ranks_per_node;
    const double of_each = bytesInto(collective, bytes, machine.nodes, machine.ranks_per_node) / nics;
    time = std::max(of_each - machine.between.burst_bytes, 0.0) *
           picosecondsPerByte(machine.between.gbytes_per_s);
  } else {
    time = bytesInto(collective, bytes, machine.ranks_per_node, 1) *
           picosecondsPerByte(machine.inside.gbytes_per_s);
  }
  return static_cast<Picoseconds>(std::floor(time));
}

}  // namespace horing
