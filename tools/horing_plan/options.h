#pragma once
#include <string>
#include <vector>

#include "algorithms/shape.h"
#include "base/types.h"
#include "schedule/plan_parameters.h"

namespace horing {

struct PlanOptions {
  enum class Command { kList, kShow, kVerify };
  Command command = Command::kList;
  std::string what;  // name of an algorithm, or a file
  Shape shape{2, 4};
  std::vector<Collective> collectives;
  int32_t position = 0;  // -1: all
  std::string svg_path;
  PlanParameters parameters;
};

// Parses the command line. False: nothing is left to do; help or the error was printed, and `exit_code` is set.
bool parseOptions(int argc, char** argv, PlanOptions& options, int& exit_code);

}  // namespace horing
