#include "outer_ring.h"

#include "base/types.h"

namespace horing {

namespace {

struct RingTimes {
  double hop = 0, row = 0;  // picoseconds
};

RingTimes ringTimes(const Question& question) {
  const MachineModel& machine = question.machine;
  const double chunk = static_cast<double>(question.bytes) / machine.ranks();
  const double sharers = machine.nic == Owner::kNode ? machine.ranks_per_node : 1;
  const auto message = [chunk](const LinkModel& link, double sharing) {
    return link.latency_us * kPicosecondsPerMicrosecond +
           sharing * chunk * picosecondsPerByte(link.gbytes_per_s);
  };
  return {message(machine.between, sharers), (machine.ranks_per_node - 1) * message(machine.inside, 1)};
}

}  // namespace

bool hasOuterRing(std::string_view algorithm) {
  return algorithm == "ho_ring" || algorithm == "ho_ring_direct";
}

RingLimit ringLimit(const Question& question, Picoseconds bound) {
  const MachineModel& machine = question.machine;
  const double hops = machine.nodes - 1;
  const double phases = question.collective == Collective::kAllReduce ? 2 : 1;
  const double latencies = phases * hops * machine.between.latency_us * kPicosecondsPerMicrosecond;
  if (latencies >= kMostLatency * static_cast<double>(bound)) return RingLimit::kLatency;
  const RingTimes times = ringTimes(question);
  return machine.nodes * times.row >= hops * times.hop ? RingLimit::kInside : RingLimit::kNone;
}

bool rowIsBelowHop(const Question& question) {
  const RingTimes times = ringTimes(question);
  return times.row < times.hop;
}

}  // namespace horing
