#pragma once
// An earlier check of the same nodes, to compare with: what all nodes have lost alike shows nowhere else.
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing_check/report.h"

namespace horing::check {

// Medians over partners, in bytes per second, by the name of the node.
struct Baseline {
  double bytes_per_s = 0;  // of the cluster
  std::map<std::string, double> sends, receives;
};

Baseline baselineOf(const std::vector<std::string>& names, const Figures& figures, const Verdict& verdict);
// From a file that --json wrote.
Result<Baseline> readBaseline(const std::string& path);

// What has lost a tenth and more, or more than the scatter explains: the cluster, and the nodes that have lost so much more than it.
std::vector<Loss> lossesSince(const Baseline& before, const Baseline& now, double scatter);

// The same of the last quarter of the rounds since the first quarter: what gets slower under load, as when it gets hot.
std::vector<Loss> lossesWithin(const std::vector<std::string>& names, const Figures& figures);

}  // namespace horing::check
