#include "sim/machine_pipes.h"

#include <algorithm>

#include "sim/core_turns.h"

namespace horing {

MachinePipes::MachinePipes(const MachineModel& machine, const FoldedNetwork& network)
    : machine_(machine),
      network_(network),
      core_of_(coresOfPositions(machine, network.folding())),
      latency_between_(toPicoseconds(machine.between.latency_us)),
      latency_inside_(toPicoseconds(machine.inside.latency_us)) {
  const Folding& folding = network.folding();
  const int32_t ranks = folding.simulatedRanks();
  const int32_t nodes = folding.folds() ? 1 : folding.nodes();
  nic_out_ = addNics(&LinkParts::sends, &SharedPipes::addOrdered);
  nic_in_ = addNics(&LinkParts::receives, &SharedPipes::addFair);
  for (const Numbers& numbers : {nic_out_, nic_in_})
    for (const int32_t number : numbers) pipes_.setBurst(number, machine.between.burst_bytes);
  port_out_ = addResources(ranks, picosecondsPerByte(machine.inside.gbytes_per_s));
  port_in_ = addResources(ranks, picosecondsPerByte(machine.inside.gbytes_per_s));
  memory_ = addResources(nodes, picosecondsPerByte(machine.memory_gbytes_per_s));
  if (machine.cores_of == Owner::kNode) {
    cores_ = addResources(nodes, machine.cores > 0 ? 1 / machine.cores : 0);
  } else {  // the representative node has its share of them
    const double simulated = folding.folds() ? folding.nodes() : 1;
    cores_ = addResources(1, machine.cores > 0 ? simulated / machine.cores : 0);
  }
  for (const Wire& wire : network.wires()) first_core_ = pipes_.addPipe(0, resourcesOf(wire)) + 1;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    SharedPipes::Resources resources = SharedPipes::kNoResources;
    if (!cores_.empty())
      resources[0] = cores_[machine.cores_of == Owner::kNode ? static_cast<size_t>(node(rank)) : 0];
    pipes_.addPipe(1, resources);
  }
}

MachinePipes::Numbers MachinePipes::addResources(int32_t count, double cost) {
  Numbers numbers;
  if (cost > 0)
    for (int32_t i = 0; i < count; ++i) numbers.push_back(pipes_.addResource(cost));
  return numbers;
}

MachinePipes::Numbers MachinePipes::addNics(double LinkParts::*part, Add add) {
  Numbers numbers;
  const double cost = picosecondsPerByte(machine_.between.gbytes_per_s);
  const int32_t nodes = network_.folding().folds() ? 1 : machine_.nodes;
  for (int32_t node = 0; node < nodes && cost > 0; ++node)
    for (int32_t i = 0; i < machine_.nicsOf(node); ++i)
      numbers.push_back((pipes_.*add)(cost / (machine_.linksOf(node).*part)));
  return numbers;
}

int32_t MachinePipes::node(int32_t position) const {
  return network_.folding().folds() ? 0 : network_.folding().nodeOf(position);
}

SharedPipes::Resources MachinePipes::resourcesOf(const Wire& wire) const {
  const int32_t from = wire.from, to = network_.folding().representative(wire.to);
  const auto at = [](const Numbers& numbers, int32_t index) {
    return numbers.empty() ? -1 : numbers[static_cast<size_t>(index)];
  };
  if (!wire.crosses_nodes) return {at(port_out_, from), at(port_in_, to), at(memory_, node(from))};
  if (machine_.nic == Owner::kRank) return {at(nic_out_, from), at(nic_in_, to), -1};
  return {at(nic_out_, node(from)), at(nic_in_, node(to)), -1};
}

// Data moves between the caches of different cores; ranks on one core need no such transfer.
double MachinePipes::handlingGBytesPerS(const Wire& wire) const {
  if (wire.crosses_nodes) return machine_.between.cpu_gbytes_per_s;
  const auto core = [&](int32_t position) { return core_of_[static_cast<size_t>(position)]; };
  const bool is_same_core =
      !core_of_.empty() && core(wire.from) == core(network_.folding().representative(wire.to));
  return is_same_core ? machine_.same_core_cpu_gbytes_per_s : machine_.inside.cpu_gbytes_per_s;
}

StepCost MachinePipes::costOf(const Step& step, const StepWires& wires) const {
  StepCost cost{machine_.step_us * kPicosecondsPerMicrosecond, 0};
  const int32_t last_send = wires.first_send + wires.sends, last_recv = wires.first_recv + wires.recvs;
  for (int32_t i = std::min(wires.first_send, wires.first_recv); i < std::max(last_send, last_recv); ++i) {
    const Wire& wire = network_.wires()[static_cast<size_t>(network_.wireAt(i))];
    const LinkModel& used = wire.crosses_nodes ? machine_.between : machine_.inside;
    cost.fixed += used.message_us * kPicosecondsPerMicrosecond;
    cost.per_byte += picosecondsPerByte(handlingGBytesPerS(wire));
  }
  const auto sources = static_cast<int>(step.sources.size());
  const int kept = step.keep.kind == Keep::Kind::kEveryOut ? network_.folding().ranks()
                                                           : step.keep.kind != Keep::Kind::kNone;
  const int stores = kept + (step.send_to >= 0);
  // Folding two operands takes two reads and a write; each further operand adds one read, a third of that.
  const double folds = sources > 1 ? (sources + 1) / 3.0 : 0;
  const int copies = sources > 1 ? stores - 1 : stores;
  cost.per_byte += folds * picosecondsPerByte(machine_.fold_gbytes_per_s) +
                   std::max(copies, 0) * picosecondsPerByte(machine_.copy_gbytes_per_s);
  return cost;
}

std::vector<Usage> MachinePipes::usages(Picoseconds time) const {
  std::vector<Usage> usages;
  const auto add = [&](const char* name, Owner owner, const Numbers& numbers) {
    if (numbers.empty() || time <= 0) return;
    Usage& usage = usages.emplace_back(Usage{name, static_cast<int32_t>(numbers.size()), 0, 0, owner});
    for (const int32_t number : numbers) {
      const double part = pipes_.busy(number) / static_cast<double>(time);
      usage.mean += part / static_cast<double>(numbers.size());
      usage.busiest = std::max(usage.busiest, part);
    }
  };
  add("NIC out", machine_.nic, nic_out_);
  add("NIC in", machine_.nic, nic_in_);
  add("port out", Owner::kRank, port_out_);
  add("port in", Owner::kRank, port_in_);
  add("memory", Owner::kNode, memory_);
  add("cores", machine_.cores_of, cores_);
  return usages;
}

}  // namespace horing
