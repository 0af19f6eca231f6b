#include "sim/wire_bound.h"

#include <algorithm>
#include <cmath>

namespace horing {

namespace {

// Bytes that no algorithm avoids.
struct Needed {
  double sends = 0, receives = 0;
};

// Of a node with `own` of `ranks` ranks, which are not all.
Needed neededOf(Collective collective, double bytes, double own, double ranks, bool has_root) {
  const double here = bytes * own / ranks, elsewhere = bytes - here;
  switch (collective) {
    case Collective::kAllReduce:
      return {bytes, bytes};
    case Collective::kReduceScatter:
      return {elsewhere, here};
    case Collective::kAllGather:
      return {here, elsewhere};
    case Collective::kGather:
      return has_root ? Needed{0, elsewhere} : Needed{here, 0};
    case Collective::kScatter:
      return has_root ? Needed{elsewhere, 0} : Needed{0, here};
    case Collective::kBroadcast:
      return has_root ? Needed{bytes, 0} : Needed{0, bytes};
    case Collective::kReduce:
      return has_root ? Needed{0, bytes} : Needed{bytes, 0};
    case Collective::kAllToAll:
      return {own * elsewhere, own * elsewhere};
  }
  return {};
}

// Over all links between nodes together.
double crossings(Collective collective, double bytes, double nodes) {
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (nodes - 1) * bytes;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return (nodes - 1) * bytes;
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return 0;  // no more than the nodes need
  }
  return 0;
}

double timeBetween(Collective collective, double bytes, const MachineModel& machine) {
  const double per_byte = picosecondsPerByte(machine.between.gbytes_per_s);
  const auto timeOf = [&](double needed, double nics, double part) {
    return std::max(needed - nics * machine.between.burst_bytes, 0.0) * per_byte / (nics * part);
  };
  double time = 0, nics = 0, sending = 0, receiving = 0;
  for (int32_t node = 0; node < machine.nodes; ++node) {
    const double own = machine.nicsOf(node);
    const LinkParts parts = machine.linksOf(node);
    const Needed needed = neededOf(collective, bytes, machine.ranksOf(node), machine.ranks(), node == 0);
    time = std::max(
        {time, timeOf(needed.sends, own, parts.sends), timeOf(needed.receives, own, parts.receives)});
    nics += own;
    sending += own * parts.sends;
    receiving += own * parts.receives;
  }
  const double slower = std::min(sending, receiving);
  return std::max(time, timeOf(crossings(collective, bytes, machine.nodes), nics, slower / nics));
}

double timeInside(Collective collective, double bytes, const MachineModel& machine) {
  const double per_byte = picosecondsPerByte(machine.inside.gbytes_per_s), ranks = machine.ranks_per_node;
  double time = crossings(collective, bytes, ranks) * per_byte / ranks;
  for (const bool has_root : {true, false}) {
    if (ranks == 1) break;
    const Needed needed = neededOf(collective, bytes, 1, ranks, has_root);
    time = std::max(time, std::max(needed.sends, needed.receives) * per_byte);
  }
  return time;
}

}  // namespace

Picoseconds wireBound(Collective collective, double bytes, const MachineModel& machine) {
  return static_cast<Picoseconds>(std::floor(machine.nodes > 1 ? timeBetween(collective, bytes, machine)
                                                               : timeInside(collective, bytes, machine)));
}

}  // namespace horing
