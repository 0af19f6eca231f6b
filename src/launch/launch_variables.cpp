#include "launch/launch_variables.h"

#include <charconv>
#include <cstring>

namespace horing {

std::string valueOf(const EnvironmentLookup& environment, const char* name) {
  const char* value = environment(name);
  return value ? value : "";
}

Result<int> numberOf(const EnvironmentLookup& environment, const char* name, int low, int high) {
  const std::string text = valueOf(environment, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    return makeStatus(Code::kInvalidArgument, "environment variable %s=%s: expected an integer in %d..%d",
                      name, text.c_str(), low, high);
  return value;
}

Result<std::optional<LaunchNumbers>> readLaunchNumbers(const EnvironmentLookup& environment,
                                                       const LaunchNames& names) {
  if (!environment(names.rank) || !environment(names.ranks)) return std::optional<LaunchNumbers>();
  LaunchNumbers numbers;
  HORING_ASSIGN(numbers.ranks, numberOf(environment, names.ranks, 1, kMaxRanks));
  HORING_ASSIGN(numbers.rank, numberOf(environment, names.rank, 0, numbers.ranks - 1));
  if (environment(names.local_rank)) {
    HORING_ASSIGN(numbers.local_rank, numberOf(environment, names.local_rank, 0, numbers.ranks - 1));
  }
  return std::optional<LaunchNumbers>(numbers);
}

Result<std::string> firstSlurmHost(const std::string& node_list) {
  const size_t end = node_list.find_first_of(",[");
  std::string host = node_list.substr(0, end);
  // Several brackets ("rack[1-2]node[1-3]"): the first of each.
  for (size_t open = end; open < node_list.size() && node_list[open] == '[';) {
    const size_t close = node_list.find(']', open);
    if (close == std::string::npos) {
      host.clear();
      break;
    }
    const size_t first_end = node_list.find_first_of(",-]", open + 1);
    host += node_list.substr(open + 1, first_end - open - 1);
    open = node_list.find_first_of(",[", close + 1);
    host += node_list.substr(close + 1, open - close - 1);
  }
  if (host.empty() || host.size() > 255)
    return makeStatus(Code::kInvalidArgument,
                      "the list of nodes \"%s\" that Slurm gave is not understood: set HORING_ROOT=host:port",
                      node_list.c_str());
  return host;
}

}  // namespace horing
