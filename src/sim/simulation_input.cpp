// What a simulation takes, and how it cuts vectors.
#include <algorithm>

#include "base/quotient.h"
#include "schedule/link_slots.h"
#include "schedule/plan_parameters.h"
#include "sim/core_turns.h"
#include "sim/simulation.h"

namespace horing {

Status checkInput(const SimulationInput& input) {
  const Pipelining& plan = input.pipelining;
  const auto in_range = [](int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
  };
  if (input.machine.nodes != input.folding.nodes() ||
      input.machine.ranks_per_node != input.folding.ranksPerNode() ||
      input.machine.rails != input.folding.rails())
    return makeStatus(
        Code::kInvalidArgument,
        "a machine of %d nodes with up to %d ranks, %d in all, cannot run %d nodes of up to %d, "
        "%d in all",
        input.machine.nodes, input.machine.ranks_per_node, input.machine.ranks(), input.folding.nodes(),
        input.folding.ranksPerNode(), input.folding.ranks());
  if (input.folding.folds() && nodesTakeTurns(input.machine))
    return makeStatus(
        Code::kInvalidArgument,
        "no node can stand for all of %d whose ranks take turns on the same cores: simulate all",
        input.machine.nodes);
  const std::span<const LinkParts> parts = input.machine.link_parts;
  if (!parts.empty() && (input.folding.folds() || parts.size() != static_cast<size_t>(input.machine.nodes) ||
                         std::any_of(parts.begin(), parts.end(), [](const LinkParts& part) {
                           return !(part.sends > 0 && part.receives > 0);
                         })))
    return makeStatus(Code::kInvalidArgument,
                      "%zu parts of the links of %d nodes: expected one above 0 for each, and all simulated",
                      parts.size(), input.machine.nodes);
  if (!in_range(plan.window, 1, kMaxWindow) || !in_range(plan.slices_per_chunk, 0, kMaxSlices) ||
      !in_range(plan.slots_inside, 1, kMaxQueueSlices) || !in_range(plan.slots_between, 0, kMaxQueueSlices) ||
      !in_range(plan.scratch_slices, 0, kMaxQueueSlices))
    return makeStatus(
        Code::kInvalidArgument,
        "window %d, %d slices per chunk, %d and %d slots, %d slices of scratch: one of them is out of range",
        plan.window, plan.slices_per_chunk, plan.slots_inside, plan.slots_between, plan.scratch_slices);
  if (!in_range(static_cast<int64_t>(input.element_bytes), 1, 64) || plan.slice_bytes < 64 ||
      input.count > (uint64_t{1} << 50))
    return makeStatus(Code::kInvalidArgument,
                      "%zu elements of %zu bytes in slices of %zu bytes: out of range", input.count,
                      input.element_bytes, plan.slice_bytes);
  return {};
}

int32_t slotsBetween(const Pipelining& pipelining, int32_t ranks) {
  constexpr int32_t kWanted = defaultOf("HORING_TESTS_SOCKET_SLOTS");
  if (pipelining.slots_between > 0) return pipelining.slots_between;
  return std::max(slotsBetween(kWanted, pipelining.slots_inside, pipelining.slice_bytes, ranks),
                  2 * pipelining.window);
}

Slicing slicingOf(const Pipelining& pipelining, const Schedule& schedule, size_t largest_chunk,
                  size_t element_bytes) {
  const auto wanted = static_cast<size_t>(pipelining.slices_per_chunk);
  if (wanted > 0) return {std::max<size_t>(quotientUp(largest_chunk, wanted), 1)};
  return Slicing::choose(schedule, largest_chunk, element_bytes, pipelining.slice_bytes,
                         schedule.windowOf(pipelining.window));
}

size_t elementsOf(Collective collective, int32_t ranks, uint64_t bytes, size_t element_bytes) {
  return std::max<size_t>(bytes / element_bytes / blocksOf(collective, ranks), bytes > 0 ? 1 : 0);
}

}  // namespace horing
