#pragma once
// A rank's record of its calls as a file for `horing-info trace`.
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "control/call_log.h"

namespace horing {

// Of the file's format.
inline constexpr int kFlightVersion = 3;
// Of one list: the latest kUsualEntries, and as many before them that are not complete.
inline constexpr size_t kMostFlightMessages = 2 * MessageRecorder::kUsualEntries;

struct FlightFileOptions {
  std::string folder;  // must exist
  std::string job;     // the same on all ranks; part of the file's name
  int rank = 0;
  int ranks = 1;
};

// <folder>/horing-<job>-rank<rank>-<pid>.json
std::string flightPath(const FlightFileOptions& options);

// Writes flightPath(), as a whole, and returns it. Any thread. Some ten kilobytes, some 200 bytes
// for each message (at most kMostFlightMessages, and as many of kernels), and 100 bytes for each part of a plan that graphs ran.
Result<std::string> writeFlightFile(const FlightFileOptions& options, const CallLog& calls,
                                    const CallLog& launches, const Clock& clock, const Status& error);

// The fields of a message in JSON, without times: "\"call\":\"recv\",\"peer\":3,\"bytes\":8,..."
std::string messageFields(const RecordedMessage& record, bool by_kernel);

// Escapes a text for a JSON string, without the quotes.
std::string jsonEscaped(const std::string& text);

}  // namespace horing
