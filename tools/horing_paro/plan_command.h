#pragma once
// `horing-paro plan` and `horing-paro table`.
#include <CLI/CLI.hpp>
#include <string>

#include "horing_paro/question.h"

namespace horing::paro {

// The options of `plan`, as typed.
struct PlanOptions {
  std::string params;
  std::string trainable;  // empty: all
  int nodes = 1;
  int ranks = 1;
  std::vector<int> ranks_per_node;  // in place of the two
  int accumulate = 1;
  std::string memory = "80GB";
  std::string precision = "mixed";
  std::string cost = "ho-ring";
  std::string costs_file;  // instead of rates
  std::string slow = "80Gbit";
  std::string fast = "2000Gbit";
  int interfaces = 0;
  std::string slow_latency = "0";
  std::string fast_latency = "0";
  std::string compute = "0";
  std::string svg_path;
  bool json = false;
};

void declarePlan(CLI::App& command, PlanOptions& options);
void declareTable(CLI::App& command, PlanOptions& options);

// The question from the options. Errors: kInvalidArgument, with the option's name.
Result<Question> questionOf(const PlanOptions& options);

// Prints the plan, or its JSON, and draws it. If no strategy fits, that is an error after printing.
Status runPlan(const PlanOptions& options);
// Prints the result of the paper's constants for its five cases.
Status runTable(const PlanOptions& options);

}  // namespace horing::paro
