#pragma once
// The result of the check, for users and for programs.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "horing_check/clocks.h"
#include "horing_check/device_facts.h"
#include "horing_check/diagnosis.h"
#include "horing_check/facts.h"
#include "horing_check/inside.h"
#include "horing_check/inside_paths.h"

namespace horing::check {

// Of the rate in an earlier run, or at the beginning (baseline.h).
struct Loss {
  std::string node{};  // empty: the cluster
  Part part = Part::kSends;
  double share = 1;
};

// The best time of one collective, each time that of the slowest node, and what a simulation expects.
struct CollectiveTime {
  std::string name{};  // "all_reduce"
  double seconds = 0;
  double expected_s = 0;  // if all nodes had the verdict's rate; 0: it takes too long to simulate
  double with_slow_s =
      0;  // if the sides that the verdict calls slow are so; 0: there are none, or it takes too long
  double good_s = 0, good_expected_s = 0;  // of the good nodes alone; 0: not measured
};

struct Collectives {
  uint64_t bytes = 0;  // of the whole vector
  std::vector<CollectiveTime> times;
  std::string left_out;  // why there are none
};

// The same check with one adapter of each node.
struct RailReport {
  std::vector<std::string> names;  // of the adapter, by node
  Verdict verdict;
  int rounds = 0;
  std::string left_out;  // why it was not measured, or not to the end
};

struct Report {
  std::vector<std::string> names;  // of nodes
  // Names of nodes between which no connection comes about, and of those that were left out for that, and are not among `names`.
  std::vector<std::pair<std::string, std::string>> blocked{};
  std::vector<std::string> left_out{};
  int ranks = 0;
  std::vector<Difference> differences;
  std::map<std::string, std::vector<int>> unreadable{};  // by fact: nodes that may not read it
  size_t facts = 0;                                      // compared
  std::vector<ErrorCounters> errors;                     // by node, since the check began
  std::vector<ClockOffset> clocks;                       // by node; empty: not measured
  std::vector<InsideRates> inside;                       // by node; empty: not measured
  std::vector<InsidePaths> inside_paths{};               // the same
  Figures figures;
  Verdict verdict;
  std::vector<RailReport> rails;  // none: the nodes have one adapter, or the time went into something else
  Collectives collectives;
  int rounds = 0;
  double seconds = 0;  // of the rounds
  // Why the check ended early; empty: it did not.
  std::string cut_short;
  std::vector<int> missing{};  // nodes that did not answer then
  int reporter = 0;            // the node that reports: node 0, or else the lowest that runs
  std::string baseline;        // the file of the earlier run; empty: none
  std::vector<Loss> losses;    // since then
  bool soaked = false;
  std::vector<Loss> sunk;  // since the beginning, when it soaked
};

enum class Outcome { kGood = 0, kSlow = 1, kIncomplete = 3 };
// Unconfirmed findings do not change the exit code.
Outcome outcomeOf(const Report& report);

// The measured nodes without confirmed findings, excluding as few nodes as possible.
std::vector<int> goodNodes(const Report& report);

// The hosts on which all nodes are good, without duplicates: a host may have several nodes, "host/0" and "host/1".
std::vector<std::string> goodHosts(const Report& report);

// "node[0-3,5],gw", in Slurm's syntax.
std::string hostList(const std::vector<std::string>& names);
std::string hostListOf(const Report& report, const std::vector<int>& nodes);

// A few lines of text.
std::string verdictText(const Report& report);
std::string reportToJson(const Report& report);
// A cell for each measured pair: the column's node receiving from the row's node.
std::string heatMap(const Report& report);

}  // namespace horing::check
