#pragma once
// Rounds of pairs until the result is clear, or the time is over.
#include <chrono>
#include <functional>

#include "horing_check/nodes.h"
#include "horing_check/report.h"
#include "horing_check/session.h"

namespace horing::check {

using Progress = std::function<void(const std::string&)>;

// What node 0 has measured and found; other nodes have the figures only.
struct PairRounds {
  Figures figures;
  Verdict verdict;
  int rounds = 0;
  std::string cut_short;  // why planned rounds are missing; empty: none is
};

// Collective over the nodes; node 0's options count. A round begins if it is over, and its verdict known, by `until_s` after the start of the
// session, as far as can be told, and no call waits longer than to `end`. After an error `done` has what was measured before, without a verdict.
Status measurePairsOn(Nodes& nodes, const SessionOptions& options, double until_s,
                      std::chrono::steady_clock::time_point end, const Progress& progress, PairRounds& done);

}  // namespace horing::check
