#pragma once
// `horing-paro measure`: the cost of PaRO's collectives on this machine, for `horing-paro plan --costs`.
#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"

namespace horing::paro {

struct MeasureOptions {
  std::string output;  // of costs; empty: standard output
  std::string bytes = "4MiB";
  std::string precision = "mixed";
  int repetitions = 3;
  std::string strategy;  // not empty: time its collectives in a row, instead
  bool client = false;   // and a step of the client, in turns with them
  std::string params = "2M";
  int accumulate = 1;
};

void declareMeasure(CLI::App& command, MeasureOptions& options);

// Collective, under a launcher. Rank 0 writes.
Status runMeasure(const MeasureOptions& options);

}  // namespace horing::paro
