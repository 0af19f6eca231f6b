#pragma once
// The table of strategies, and the collectives, memory and bytes that follow from a row.
//
// A *partition* says which ranks share a vector: none, those of a group, or all. Reductions and gathers
// move data between a *finer* and a *coarser* partition, among the ranks that share a coarse block: the scope. So a row needs no code.
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "paro/blocks.h"

namespace horing::paro {

using Row = horingParoStrategyInfo_t;

// Error: not one of the 14 strategies.
Result<const Row*> findRow(horingParoStrategy_t strategy);
// By name or alias in any case; "auto" too. Error: lists the names.
Result<horingParoStrategy_t> findStrategy(const char* name);
// Whether anything is sharded inside groups.
bool needsGroups(const Row& row);

// The most micro-steps of an optimizer step.
inline constexpr int kMaxMicroSteps = 1 << 20;

// A collective on the blocks of a coarser partition, in which each rank has, or gets, its block of the finer partition. An all-reduce is on
// the blocks of `coarse`.
struct Move {
  horingParoPhase_t phase;
  horingParoCollective_t collective;
  horingParoScope_t scope;
  horingParoPartition_t coarse;
};

// The moves of a strategy, in the order of phases.
std::vector<Move> movesOf(const Row& row);
// The move that gathers data sharded over all ranks to the ranks that keep it in `coarse`, which is another partition.
Move gatherTo(horingParoPartition_t coarse);
// The finer partition of an all-gather or a reduce-scatter.
horingParoPartition_t fineOf(const Move& move);
// Whether it moves gradients, and not parameters.
bool movesGrads(const Move& move);
// The number of times per optimizer step.
int timesOf(horingParoPhase_t phase, int micro_steps);

// The bytes that a rank sends in one collective over a vector of `bytes`, or over its blocks.
struct Sent {
  double slow = 0;
  double fast = 0;
};
Sent sentBy(const Move& move, const Shares& shares, double bytes);

// The collectives of a rank, and their bytes, for what `model` says beside the groups; without the memory.
horingParoEstimate_t collectivesOf(const Row& row, const horingParoModel_t& model, const Shares& shares);
// The bytes that a rank keeps of a bucket; `model` says how many of each element, and whether it is trainable.
uint64_t bucketMemory(const Row& row, const horingParoModel_t& model, const Padded& bucket,
                      const Blocks& blocks, int rank);
// See horingParoGetEstimate.
Result<horingParoEstimate_t> estimate(const Row& row, const horingParoModel_t& model);

}  // namespace horing::paro
