#pragma once
// Merges the files that ranks wrote on failure (HORING_FLIGHT_DIR) into one report.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::info {

// A verdict, then a line for each rank. kInvalidArgument names a file that cannot be read, or belongs to another job.
Result<std::string> mergeFlights(const std::vector<std::string>& files);

}  // namespace horing::info
