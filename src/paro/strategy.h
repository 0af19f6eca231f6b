#pragma once
// The strategies as a table, and what follows from a row of it: which collectives, how much memory, how many bytes.
//
// A *partition* says among how many ranks something is shared out: its divisor d is 1, the ranks of a group, or all
// ranks. What is reduced or gathered moves between two partitions, a *finer* and a *coarser* one, among the ranks
// that share a coarse block: the scope. So a row needs no code of its own.
#include <vector>

#include "base/status.h"
#include "horing/paro.h"

namespace horing::paro {

using Row = horingParoStrategyInfo_t;

// Error: not one of the 14.
Result<const Row*> findRow(horingParoStrategy_t strategy);
// By name or alias in any case; "auto" too. Error: lists the names.
Result<horingParoStrategy_t> findStrategy(const char* name);
// Whether a group shares anything out by itself.
bool needsGroups(const Row& row);

// Of an optimizer step.
inline constexpr int kMaxMicroSteps = 1 << 20;

// Who shares out what, in numbers.
struct Shape {
  int groups = 1;
  int members = 1;  // of each group

  int ranks() const { return groups * members; }
  int divisor(horingParoPartition_t partition) const {
    return partition == horingParoWhole ? 1 : partition == horingParoByGroup ? members : ranks();
  }
};

// A collective on the blocks of a coarser partition, of which each rank has, or gets, its block of the finer one. An
// all-reduce is on the blocks of `coarse`.
struct Move {
  horingParoPhase_t phase;
  horingParoCollective_t collective;
  horingParoScope_t scope;
  horingParoPartition_t coarse;
};

// What a strategy moves, in the order of phases.
std::vector<Move> movesOf(const Row& row);
// Brings what is shared out among all to everybody who keeps it in `coarse`, which is another partition.
Move gatherTo(horingParoPartition_t coarse);
// How often in an optimizer step.
int timesOf(horingParoPhase_t phase, int micro_steps);

// What each rank sends in one collective over `bytes`, the whole vector.
struct Sent {
  double slow = 0;
  double fast = 0;
};
Sent sentBy(const Move& move, const Shape& shape, double bytes);

// See horingParoGetEstimate.
Result<horingParoEstimate_t> estimate(const Row& row, const horingParoModel_t& model);

}  // namespace horing::paro
