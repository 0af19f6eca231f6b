// A chain: the positions in a circle, cut open at the root, which passes the whole vector on (broadcast) or gets it
// folded (reduce), slice by slice.
//
// n-1 hops; D bytes over each link. Positions are laid out group by group, so the chain enters each group once: D
// bytes, the least possible. A reduction starts at root+1 and is folded at each stop, the root last.
#include "algorithms/catalogue.h"
#include "schedule/builder.h"

namespace horing {

Schedule buildChain(Collective collective, Shape shape, int32_t position, int32_t root) {
  const int32_t n = shape.ranks(), next = (position + 1) % n, previous = (position + n - 1) % n;
  LaneBuilder lane;
  StepBuilder step = lane.at(0);
  if (collective == Collective::kBroadcast) {
    position == root ? step.read(kInput) : step.recv(previous);
    step.keep(kOutput);
    if (next != root) step.send(next);
  } else {
    const bool is_first = n == 1 || previous == root;
    if (!is_first) step.recv(previous);
    step.fold(kInput);
    position == root ? step.complete().keep(kOutput) : step.send(next);
  }
  return {.grid = {1, 1}, .lanes = {lane.build()}};
}

}  // namespace horing
