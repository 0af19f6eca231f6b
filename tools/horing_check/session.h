#pragma once
// One check from the first message to the report.
#include <chrono>
#include <functional>
#include <string>

#include "horing_check/nodes.h"
#include "horing_check/report.h"

namespace horing::check {

struct SessionOptions {
  double time_s = 60;
  // When it began, since meeting the others is a part of it.
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  bool all_pairs = false;
  unsigned seed = 1;  // of random pairs
};

// Collective over the nodes. Ends in about options.time_s, whatever the nodes do: what was measured until then is in the report of node
// 0 (other nodes' are not complete), and so is why there is no more. `progress` gets a line after each round, on node 0.
Report runSession(Nodes& nodes, const SessionOptions& options,
                  const std::function<void(const std::string&)>& progress);

}  // namespace horing::check
