#pragma once
// A machine as pipes and resources (shared_pipes.h): one pipe for each connection, one for the computation of each rank.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/folded_network.h"
#include "sim/machine_model.h"
#include "sim/shared_pipes.h"

namespace horing {

// Resources of one kind, of all simulated ranks.
struct Usage {
  std::string name;
  int32_t count = 0;
  double mean = 0;     // part of the time that they were busy
  double busiest = 0;  // the same of the busiest one
};

// What a slice of a step costs the core of its rank, in picoseconds.
struct StepCost {
  double fixed = 0;
  double per_byte = 0;
};

// A value over a network, which must outlive it.
class MachinePipes {
 public:
  MachinePipes(const MachineModel& machine, const FoldedNetwork& network);

  SharedPipes& pipes() { return pipes_; }
  // The pipe of connection w is number w, of the core of simulated rank r that of the last connection + 1 + r. Work is in bytes, or
  // in picoseconds of one core.
  int32_t pipeOfCore(int32_t rank) const { return first_core_ + rank; }
  bool isCore(int32_t pipe) const { return pipe >= first_core_; }
  int32_t rankOfCore(int32_t pipe) const { return pipe - first_core_; }

  Picoseconds latency(const Wire& wire) const {
    return wire.crosses_nodes ? latency_between_ : latency_inside_;
  }
  // Of a core at each end, for a message that finds its line empty, beyond costOf().
  Picoseconds start(const Wire& wire) const {
    return toPicoseconds(wire.crosses_nodes ? machine_.between.start_us : machine_.inside.start_us);
  }
  StepCost costOf(const Step& step, const StepWires& wires) const;
  // Of a simulation that took `time`; what nothing can limit is left out.
  std::vector<Usage> usages(Picoseconds time) const;

 private:
  using Numbers = std::vector<int32_t>;
  Numbers addResources(int32_t count, double cost);
  // Of a simulated position; the nodes that are not simulated are the one that is.
  int32_t node(int32_t position) const;
  SharedPipes::Resources resourcesOf(const Wire& wire) const;
  double handlingGBytesPerS(const Wire& wire) const;

  const MachineModel machine_;
  const FoldedNetwork& network_;
  const std::vector<size_t> core_of_;  // of each position; empty: nobody takes turns
  SharedPipes pipes_;
  int32_t first_core_ = 0;
  Picoseconds latency_between_, latency_inside_;
  Numbers nic_out_, nic_in_, port_out_, port_in_, memory_, cores_;  // empty: without limit
};

}  // namespace horing
