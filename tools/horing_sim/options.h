#pragma once
#include <string>
#include <vector>

#include "compare.h"
#include "selection/model_selection.h"

namespace horing {

struct SimOptions {
  enum class Command { kRun, kCompare, kSelect, kMachine };
  Command command = Command::kRun;
  Question question;  // of `run`
  Comparison comparison;
  SelectionQuestion selection;
  enum class Against { kEachOther, kPaper } against = Against::kEachOther;
  std::string trace_path, svg_path, cluster_path, goal_path, csv_path;
  int32_t drawn_ranks = 16;
};

// What a command line asks for. Sets `exit_code` and prints help or the error itself when there is nothing left to do.
bool parseOptions(int argc, char** argv, SimOptions& options, int& exit_code);

}  // namespace horing
