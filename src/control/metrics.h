#pragma once
// What a rank has done since its communicator was made, as OpenMetrics text (docs/metrics.md).
#include <cstdint>
#include <string>

#include "control/call_log.h"

namespace horing {

struct MetricsOf {
  std::string communicator;  // the same on all ranks
  int rank = 0;
  int64_t pid = 0;  // jobs that run at one time may have the same names of communicators
  int ranks = 1;
};

// `launches`: the calls that kernels carry out. The peers that the rank has waited for longest, at most so many, each for data and room.
inline constexpr size_t kMostMetricPeers = 16;
std::string metricsText(const MetricsOf& of, const CallLog& calls, const CallLog& launches, int64_t now_ns,
                        int64_t wall_ms);

}  // namespace horing
