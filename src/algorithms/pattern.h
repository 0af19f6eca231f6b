#pragma once
// The two patterns that run inside a group, over one row of the chunk grid. ring, direct and ho_ring are made
// of them.
//
// A row holds one chunk for each member of the group; column c belongs to local index c.
//   ring:   m-1 hops round the group; each rank talks to two neighbours.
//   direct: every rank exchanges with every other; one hop, m-1 peers.
// Both receive D(m-1)/m bytes per rank of a row of D bytes, the least possible.
#include "schedule/builder.h"

namespace horing {

enum class Pattern { kRing, kDirect };

// One rank's view of its group: positions first .. first + size - 1, of which it is number `local`.
struct Members {
  int32_t first = 0;
  int32_t size = 1;
  int32_t local = 0;
  int32_t peer(int32_t index) const { return first + (index % size + size) % size; }
  // The chunk in column `index` (modulo the group) of the row whose first chunk is `row`.
  int32_t chunk(int32_t row, int32_t index) const { return row + (index % size + size) % size; }
};

// A moment in another lane, see Wait.
struct After {
  int32_t lane = -1;
  int32_t step = 0;
  int32_t stride = 0;
};

// Spreads this rank's chunk of the row, which lies in `from`, and collects all others into the output. The
// first step waits for `after`. For a group of one and from == output there is nothing to do.
void gatherRow(BlockBuilder block, Pattern pattern, const Members& members, int32_t row, Place from,
               After after);

// Reduces the row: this rank's chunk of it, folded over the group in the order local+1, ..., local, goes to
// `to`. Returns the last step, which folds the group's share of the chunk.
StepBuilder reduceRow(BlockBuilder block, Pattern pattern, const Members& members, int32_t row, Place to);

}  // namespace horing
