#pragma once
// Queries running jobs through the sockets of their processes (control/job_window.h).
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::info {

// What the processes with these numbers do, or all of this user's that use horing; then for each of their jobs how its ranks fare.
Result<std::string> runningJobs(const std::vector<std::string>& pids);

}  // namespace horing::info
