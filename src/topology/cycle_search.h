#pragma once
// A cycle through all vertices of a graph (a Hamiltonian cycle), looked for by deciding edge after edge.
//
// An edge is open, taken or gone. What follows from a decision is drawn at once: a vertex with two open edges takes both, one with two taken
// edges loses the others, an edge that would close a cycle too early goes, and a graph that falls apart has none. Sparse graphs are decided
// by that almost alone; in dense ones nearly every try succeeds. Tries that take long are given up and begun again in another order.
#include <bitset>
#include <cstdint>
#include <functional>
#include <vector>

namespace horing {

inline constexpr size_t kMaxCycleVertices = 128;
using VertexSet = std::bitset<kMaxCycleVertices>;

struct CycleSearch {
  enum class Outcome : uint8_t {
    kFound,
    kFewEdges,   // `vertex` has fewer than two
    kApart,      // there is no path between some vertices
    kCutVertex,  // without `vertex` there would be none
    kNone,       // proven by trying all
    kOutOfSteps
  };
  Outcome outcome = Outcome::kOutOfSteps;
  int32_t vertex = -1;
  std::vector<int32_t> cycle;  // begins with vertex 0; empty unless found
  int64_t steps = 0;           // decisions made
};

// `edges` gives each vertex's neighbours; it is symmetric, of 3 to kMaxCycleVertices. Of two edges of a vertex the one of higher
// `worth` is tried first. Stops after `most_steps` decisions. The same arguments give the same answer everywhere.
CycleSearch findCycle(const std::vector<VertexSet>& edges,
                      const std::function<int64_t(size_t, size_t)>& worth, int64_t most_steps);

}  // namespace horing
