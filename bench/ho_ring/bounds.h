#pragma once
// What the wire allows, and what the theory says of two rings. Source: arXiv 2310.06003, section HO-Ring.
//
// Words: D is the bytes of the whole vector (gathered, or reduced), M the number of nodes, m the ranks of a node, n = Mm.
// Whatever the algorithm, D(M-1)/M bytes leave (and enter) each node for all-gather and reduce-scatter, and twice that for
// all-reduce. A flat ring moves D(n-1)/n.
#include <cstdint>

#include "base/types.h"

namespace horing::bench {

struct JobShape {
  int nodes = 1;
  int ranks = 1;
  int members() const { return ranks / nodes; }
};

// Bytes that must leave each node; 0 for one node.
double wireBytes(Collective collective, const JobShape& shape, uint64_t whole_bytes);
// Bytes that leave each node in a flat ring; 0 for one node, where it uses no link.
double ringWireBytes(Collective collective, const JobShape& shape, uint64_t whole_bytes);
// How many times faster than a flat ring ho_ring is when the links are the bottleneck: (n-1)/(m(M-1)); 1 for one node.
double theoreticalSpeedup(const JobShape& shape);
// Milliseconds that `bytes` take at a rate in Mbit/s (1e6) per node; 0 when the rate is not known (0).
double wireTimeMs(double bytes, double rate_mbit);

}  // namespace horing::bench
