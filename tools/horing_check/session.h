#pragma once
// One check from the first message to the report.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "horing_check/nodes.h"
#include "horing_check/report.h"

namespace horing::check {

struct SessionOptions {
  double time_s = 60;
  // The start, including the rendezvous.
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  bool all_pairs = false;
  bool soak = false;             // goes on until the time is over, however clear the result is
  unsigned seed = 1;             // of random pairs
  std::vector<double> shares{};  // by node, of the expected rates (Figures)
};

// Collective over the nodes. Ends in about options.time_s, whatever the nodes do: node 0's report has all measurements until then, and the
// reason for an early end (the reports of other nodes are not complete). `progress` gets a line after each round, on node 0.
Report runSession(Nodes& nodes, const SessionOptions& options,
                  const std::function<void(const std::string&)>& progress);

}  // namespace horing::check
