#pragma once
// A machine as pipes and resources (shared_pipes.h): one pipe for each connection, one for the computation of each rank.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/folded_network.h"
#include "sim/machine_model.h"
#include "sim/shared_pipes.h"

namespace horing {

// The use of resources of one kind, over all simulated ranks.
struct Usage {
  std::string name;
  int32_t count = 0;
  double mean = 0;     // busy fraction of the time
  double busiest = 0;  // the same for the busiest resource
  Owner owner = Owner::kRank;
};

// The core time of a slice of a step, in picoseconds.
struct StepCost {
  double fixed = 0;
  double per_byte = 0;
};

// A value over a network, which must outlive it.
class MachinePipes {
 public:
  MachinePipes(const MachineModel& machine, const FoldedNetwork& network);

  SharedPipes& pipes() { return pipes_; }
  // Connection w has pipe w; the core of simulated rank r has pipe (number of connections + r). Work is in bytes, or in picoseconds of one
  // core.
  int32_t pipeOfCore(int32_t rank) const { return first_core_ + rank; }
  bool isCore(int32_t pipe) const { return pipe >= first_core_; }
  int32_t rankOfCore(int32_t pipe) const { return pipe - first_core_; }

  Picoseconds latency(const Wire& wire) const {
    return wire.crosses_nodes ? latency_between_ : latency_inside_;
  }
  // Core time at each end for a message on an idle line, in addition to costOf().
  Picoseconds start(const Wire& wire) const {
    return toPicoseconds(wire.crosses_nodes ? machine_.between.start_us : machine_.inside.start_us);
  }
  StepCost costOf(const Step& step, const StepWires& wires) const;
  // For a simulation that took `time`; without unlimited resources.
  std::vector<Usage> usages(Picoseconds time) const;

 private:
  using Numbers = std::vector<int32_t>;
  using Add = int32_t (SharedPipes::*)(double);
  Numbers addResources(int32_t count, double cost);
  Numbers addNics(double LinkParts::*part, Add add);
  // The node of a simulated position; other nodes map to the simulated node.
  int32_t node(int32_t position) const;
  SharedPipes::Resources resourcesOf(const Wire& wire) const;
  double handlingGBytesPerS(const Wire& wire) const;

  const MachineModel machine_;
  const FoldedNetwork& network_;
  const std::vector<size_t> core_of_;  // by position; empty: no turns
  SharedPipes pipes_;
  int32_t first_core_ = 0;
  Picoseconds latency_between_, latency_inside_;
  Numbers nic_out_, nic_in_, port_out_, port_in_, memory_, cores_;  // empty: unlimited
};

}  // namespace horing
