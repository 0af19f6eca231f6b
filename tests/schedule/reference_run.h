#pragma once
// Runs schedules of all ranks one step at a time in a random order, on expressions instead of numbers: an executor that shares no code with
// the verifier. It checks the verifier's results, and shows in what order contributions are folded.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/postcondition.h"
#include "schedule/schedule.h"

namespace horing {

// The contribution of position 3 is "3"; a fold of several operands in one pass is "(a b c)", a completed
// value "[a]". "?" was never written.
struct ReferenceResult {
  bool ended = false;                         // false: the ranks waited for each other
  std::vector<std::vector<std::string>> out;  // [position][chunk]
};

// `seed` decides the order in which lanes that can move do so; some lanes are starved for a while.
ReferenceResult runReference(std::span<const Schedule> all_ranks, InPlace in_place, uint32_t seed);

// Whether the result holds every contribution that the collective promises exactly once, in any order.
bool fulfilsContract(std::span<const Schedule> all_ranks, const ReferenceResult& result);

}  // namespace horing
