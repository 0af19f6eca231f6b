#pragma once
// What a rank has done since its communicator was made, as OpenMetrics text (docs/metrics.md).
#include <cstdint>
#include <string>

#include "control/call_log.h"

namespace horing {

struct MetricsOf {
  std::string communicator;  // the same on all ranks
  int rank = 0;
  int64_t pid = 0;  // distinguishes concurrent jobs whose communicators have the same names
  int ranks = 1;
};

// `launches`: the calls that kernels carry out. Waits are listed for at most kMostMetricPeers peers, the longest, for data and for room.
inline constexpr size_t kMostMetricPeers = 16;
std::string metricsText(const MetricsOf& of, const CallLog& calls, const CallLog& launches, int64_t now_ns,
                        int64_t wall_ms);

}  // namespace horing
