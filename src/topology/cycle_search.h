#pragma once
// Searches a cycle through all vertices of a graph (a Hamiltonian cycle) by deciding one edge after the other, with backtracking.
//
// An edge is undecided, taken or removed. Each decision is propagated at once: a vertex with two edges left takes both; a vertex with two
// taken edges loses the others; an edge that would close a cycle too early is removed; a disconnected graph has no cycle. Propagation alone
// decides most sparse graphs; in dense graphs nearly every try succeeds. A try that takes long is restarted in another order.
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
    kFewEdges,   // `vertex` has fewer than two edges
    kApart,      // the graph is disconnected
    kCutVertex,  // without `vertex` the graph would be disconnected
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
