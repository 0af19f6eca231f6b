#pragma once
// What the check found, for people and for programs.
#include <string>
#include <vector>

#include "horing_check/diagnosis.h"
#include "horing_check/facts.h"

namespace horing::check {

struct Report {
  std::vector<std::string> names;  // of nodes
  int ranks = 0;
  std::vector<Difference> differences;
  size_t facts = 0;  // compared
  Figures figures;
  Verdict verdict;
  int rounds = 0;
  double seconds = 0;
  // Why the check ended before it was done; empty: it did not.
  std::string cut_short;
  int failed = -1;  // the node that ended it early, if one did
};

enum class Outcome { kGood = 0, kSlow = 1, kIncomplete = 3 };
// Unconfirmed findings do not change the exit code.
Outcome outcomeOf(const Report& report);

// Nodes that were measured and remain when as few as possible are left out that something was confirmed against.
std::vector<int> goodNodes(const Report& report);

// The hosts on which all nodes are good, each once: a host may be several nodes, "host/0" and "host/1".
std::vector<std::string> goodHosts(const Report& report);

// "node[0-3,5],gw", as Slurm writes and takes it; a name that ends in no number as it is.
std::string hostList(const std::vector<std::string>& names);
std::string hostListOf(const Report& report, const std::vector<int>& nodes);

// A few lines of plain English.
std::string verdictText(const Report& report);
std::string reportToJson(const Report& report);
// A cell for each pair that was measured: what the node of the column received from that of the row.
std::string heatMap(const Report& report);

}  // namespace horing::check
