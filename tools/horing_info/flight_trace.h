#pragma once
// The files that ranks wrote when something went wrong (HORING_FLIGHT_DIR), merged into one story.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::info {

// A verdict, then a line for each rank. kInvalidArgument names a file that cannot be read, or is of another job.
Result<std::string> mergeFlights(const std::vector<std::string>& files);

}  // namespace horing::info
