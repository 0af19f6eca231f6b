#pragma once
// The bytes that crossed each node's links during a run, as a JSON file.
#include <string>
#include <vector>

#include "base/status.h"
#include "horing_run/emulated_network.h"

namespace horing::run {

// {"nodes": M, "rails": K, "rate_mbit": the slowest, "rates_mbit": [by node], "interfaces": [{"node": 0, "interface": "r0", "received_bytes":
// {"before": .., "after": .., "during": ..}, "sent_bytes": {...}}, ...]}; `before` and `after` list the same
// interfaces in one order.
Status writeByteReport(const std::string& path, const EmulatedNetwork& network,
                       const std::vector<InterfaceCounters>& before,
                       const std::vector<InterfaceCounters>& after);

}  // namespace horing::run
