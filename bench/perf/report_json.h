#pragma once
// The JSON file of a run, in the schema of nccl-tests (version 3), with a difference: of the environment
// only what concerns the run is written, and never a secret. More than the schema has only where options ask for it (waits, predictions).
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "perf/options.h"
#include "perf/table.h"
#include "perf/waits.h"

namespace horing::perf {

// Variables that may be written: HORING_* and the launchers' rank and size. Names that speak of a secret or
// key are there with their value replaced.
std::vector<std::pair<std::string, std::string>> shownEnvironment(const char* const* environment);

struct RunReport {
  std::vector<std::string> arguments;
  std::string start_time;
  std::string end_time;
  int library_version = 0;
  std::vector<RankPlace> places;
  std::vector<Row> rows;
  std::vector<std::vector<Wait>> waits;  // by rank, longest first; empty: not asked for
  Totals totals;
  std::vector<std::string> errors;
};

std::string reportJson(const RunReport& report, const Options& options);

// A new file: `name`, or if that exists name.0, name.1, ... Never opens an existing one. Errors:
// kSystemError.
Result<Fd> createNewFile(const std::string& name);
Status writeAll(const Fd& fd, const std::string& text);

// "2026-05-04 12:30:01", local time.
std::string timeOfDay();

}  // namespace horing::perf
