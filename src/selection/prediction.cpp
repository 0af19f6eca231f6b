#include "selection/prediction.h"

#include <algorithm>

#include "algorithms/catalogue.h"
#include "selection/group_shares.h"
#include "selection/selection.h"
#include "sim/core_turns.h"
#include "sim/wire_bound.h"

namespace horing {

namespace {

constexpr int32_t kLikelyNodes = 7;  // besides the first

// What all links of each node send and receive.
std::vector<double> ratesOfNodes(const MachineModel& machine) {
  std::vector<double> rates;
  for (int32_t node = 0; node < machine.nodes; ++node) {
    const LinkParts parts = machine.linksOf(node);
    rates.push_back(machine.nicsOf(node) * std::min(parts.sends, parts.receives));
  }
  return rates;
}

// An unknown algorithm is refused with the first schedule.
Shape shapeOf(const Question& question) {
  const MachineModel& machine = question.machine;
  Shape shape{machine.nodes, machine.ranks_per_node, machine.rails};
  const Algorithm* const algorithm = findAlgorithm(question.algorithm);
  if (!algorithm) return shape;
  return forRates(*algorithm, shapeFor(*algorithm, shape), ratesOfNodes(machine));
}

// The memory of the schedules of this many ranks and their network, if all are like this one.
uint64_t memoryEstimate(const Schedule& schedule, int32_t ranks) {
  constexpr uint64_t kNetworkBytesPerStep = 160;  // wires, costs
  uint64_t bytes = sizeof schedule;
  for (const Lane& lane : schedule.lanes)
    for (const Block& block : lane.blocks)
      for (const Step& step : block.body)
        bytes += sizeof step + step.sources.capacity() * sizeof(Source) +
                 step.signal_to.capacity() * sizeof(int32_t) + kNetworkBytesPerStep;
  return bytes * static_cast<uint64_t>(ranks);
}

Status checkMemory(const Question& question, const Schedule& first, int32_t ranks) {
  const uint64_t bytes = memoryEstimate(first, ranks);
  if (bytes <= question.most_bytes) return {};
  const auto gib = [](uint64_t number) { return static_cast<double>(number) / (1 << 30); };
  return makeStatus(
      Code::kInvalidUsage,
      "the schedules of %d ranks of %s take about %.1f GiB of memory, and %.1f may be used: take "
      "fewer ranks, or an algorithm in which one node can stand for all",
      ranks, question.algorithm.c_str(), gib(bytes), gib(question.most_bytes));
}

Status simulateInto(Prediction& prediction, Record record) {
  const Question& question = prediction.question;
  SimulationInput input;
  input.machine = question.machine;
  input.schedules = *prediction.schedules;
  input.folding = prediction.folding;
  input.count =
      elementsOf(question.collective, question.machine.ranks(), question.bytes, input.element_bytes);
  input.pipelining = question.pipelining;
  input.record = record;
  input.most_work = question.most_work;
  HORING_ASSIGN(prediction.result, simulate(input));
  prediction.bound = wireBound(question.collective, static_cast<double>(question.bytes), question.machine);
  return {};
}

}  // namespace

Result<Prediction> predict(const Question& question, Record record) {
  HORING_TRY(checkLinksKnown(question.machine));
  Prediction prediction;
  prediction.question = question;
  const MachineModel& machine = question.machine;
  const Shape shape = shapeOf(question);
  const auto scheduleAt = [&](int32_t position) {
    return buildSchedule(question.algorithm, question.collective, shape, position);
  };
  prediction.folding = Folding(Folding::Kind::kNone, machine.nodes, machine.ranks_per_node, machine.rails);
  const bool nodes_differ = machine.rails || !machine.link_parts.empty();
  if (question.ranks != Ranks::kAll && !nodes_differ && !nodesTakeTurns(machine)) {
    HORING_ASSIGN(prediction.folding,
                  findFolding(machine.nodes, machine.ranks_per_node, scheduleAt,
                              question.ranks == Ranks::kOneNodeIfLikely ? kLikelyNodes : kAllNodes));
  }
  auto schedules = std::make_shared<std::vector<Schedule>>();
  for (int32_t position = 0; position < prediction.folding.simulatedRanks(); ++position) {
    HORING_ASSIGN(Schedule schedule, scheduleAt(position));
    if (position == 0) HORING_TRY(checkMemory(question, schedule, prediction.folding.simulatedRanks()));
    schedules->push_back(std::move(schedule));
  }
  prediction.schedules = std::move(schedules);
  HORING_TRY(simulateInto(prediction, record));
  return prediction;
}

Result<Prediction> predictAgain(const Prediction& before, uint64_t bytes, Record record) {
  Prediction prediction = before;
  prediction.question.bytes = bytes;
  HORING_TRY(simulateInto(prediction, record));
  return prediction;
}

}  // namespace horing
