#pragma once
// Reads the environment variables of launchers.
#include <optional>
#include <string>

#include "base/status.h"
#include "launch/launcher.h"

namespace horing {

struct LaunchNumbers {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
};

// The three variables of one launcher. Nothing if `rank` or `ranks` is not set; an error if a value is not a number or out of range. A
// missing local rank is 0.
struct LaunchNames {
  const char* rank;
  const char* ranks;
  const char* local_rank;
};
Result<std::optional<LaunchNumbers>> readLaunchNumbers(const EnvironmentLookup& environment,
                                                       const LaunchNames& names);

// The value, or "" when it is not set.
std::string valueOf(const EnvironmentLookup& environment, const char* name);
Result<int> numberOf(const EnvironmentLookup& environment, const char* name, int low, int high);

// "node-01" of "node-[01-04,7],other".
Result<std::string> firstSlurmHost(const std::string& node_list);

}  // namespace horing
