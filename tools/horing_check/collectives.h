#pragma once
// Collectives over all nodes, and over the good ones, beside what a simulation expects at the rates that the check has measured.
#include <chrono>
#include <vector>

#include "base/types.h"
#include "horing_check/nodes.h"
#include "horing_check/report.h"

namespace horing::check {

// A collective of `bytes` on a ring of so many nodes, at the verdict's rate, of which each node has its share (Figures), and latency. With
// slow sides, the sides of nodes that the verdict calls slow are as slow as it says; then `nodes` is all nodes. Errors: it takes too long to
// simulate.
Result<double> expectedSeconds(Collective collective, uint64_t bytes, size_t nodes, const Verdict& verdict,
                               bool with_slow_sides, const std::vector<double>& shares = {});

// Collective over the nodes; node 0's verdict and time count. Takes about three quarters of the time until `end` at most.
Result<Collectives> measureCollectives(Nodes& nodes, const Report& report,
                                       std::chrono::steady_clock::time_point end);

}  // namespace horing::check
