#pragma once
// A rank's record of its calls as a file for `horing-info trace`.
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "control/call_log.h"

namespace horing {

// Of the file's format.
inline constexpr int kFlightVersion = 2;

struct FlightFileOptions {
  std::string folder;  // must exist
  std::string job;     // the same on all ranks; part of the file's name
  int rank = 0;
  int ranks = 1;
};

// Writes <folder>/horing-<job>-rank<rank>-<pid>.json and returns its path. Any thread. Several kilobytes, and 100 bytes for each
// part of a plan that graphs ran.
Result<std::string> writeFlightFile(const FlightFileOptions& options, const CallLog& calls,
                                    const CallLog& launches, const Clock& clock, const Status& error);

// Escapes a text for a JSON string, without the quotes.
std::string jsonEscaped(const std::string& text);

}  // namespace horing
