#include "sim/bottleneck.h"

#include <algorithm>

#include "sim/critical_path.h"

namespace horing {

namespace {

constexpr double kBusy = 0.7;    // of the time: a resource that is busy so long bounds it
constexpr double kAlike = 0.95;  // the mean over the busiest, from which on resources count as equally busy
// The time of the busiest link, or of the messages of the critical path, over the wire bound.
constexpr double kWasteful = 1.25;

std::string percent(double part) {
  return formatString("%.0f %%", 100 * part);
}
double partOf(Picoseconds part, Picoseconds whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Without a number: a position is not a rank, and one node may stand for all.
std::string ownerText(const Usage& usage) {
  if (usage.owner == Owner::kMachine) return "the machine";
  return std::string(usage.mean >= kAlike * usage.busiest ? "every " : "the busiest ") +
         (usage.owner == Owner::kRank ? "rank" : "node");
}

std::string resourceText(const Usage& usage) {
  const std::string owner = ownerText(usage), busy = percent(usage.busiest);
  if (usage.name == "memory") return "memory: that of " + owner + " moves data at " + busy + " of its rate";
  if (usage.name == "cores") return "cores: those of " + owner + " compute for " + busy + " of the time";
  return std::string("links ") + (usage.name.starts_with("NIC") ? "between nodes: " : "inside a node: ") +
         owner + (usage.name.ends_with("out") ? " sends at " : " receives at ") + busy + " of its rate";
}

// For a link that is as busy as `usage`: its time over the wire bound, which is that of links between nodes if there are several. 0: no bound.
double overBound(const Usage& usage, Picoseconds time, int32_t nodes, Picoseconds bound) {
  const bool is_bounded = usage.name.starts_with(nodes > 1 ? "NIC" : "port");
  return is_bounded && bound > 0 ? usage.busiest / partOf(bound, time) : 0;
}

std::string pathText(const PathShare& share, Picoseconds time, int32_t nodes, Picoseconds bound) {
  const std::string part = percent(partOf(share.time, time)) + " of the time";
  if (share.name.starts_with("latency"))
    return share.name +
           formatString(share.segments == 1 ? ": %d message, %.1f us; "
                                            : ": %d messages that wait for one another, %.1f us each; ",
                        share.segments, toMicroseconds(share.time) / share.segments) +
           part;
  if (share.name == "cores")
    return formatString("cores: %d steps that wait for one another compute, or wait for a core, for ",
                        share.segments) +
           part;
  // The bound is that of links between nodes if there are several.
  const std::string where = nodes > 1 ? "between nodes" : "inside a node";
  if (share.name == "lines " + where && partOf(share.time, bound) < kWasteful)
    return "links " + where + ": no more bytes than needed, which take " + part;
  if (share.name.starts_with("lines"))
    return "algorithm: its messages wait for one another, and are on " + share.name + " for " + part;
  return "slots: senders wait for receivers to free slots for " + part;
}

}  // namespace

std::string bottleneckText(const SimulationResult& result, const FoldedNetwork& network, Picoseconds bound) {
  if (result.time <= 0) return "";
  const auto busiest = std::max_element(result.usages.begin(), result.usages.end(),
                                        [](const Usage& a, const Usage& b) { return a.busiest < b.busiest; });
  if (busiest != result.usages.end() && busiest->busiest >= kBusy) {
    const double over = overBound(*busiest, result.time, network.folding().nodes(), bound);
    if (over < kWasteful) return resourceText(*busiest);
    return formatString("algorithm: its messages take %.1f times as long as the fewest bytes would; ", over) +
           resourceText(*busiest);
  }
  const std::vector<PathShare> shares = pathShares(criticalPath(result, network));
  return shares.empty() ? "" : pathText(shares.front(), result.time, network.folding().nodes(), bound);
}

}  // namespace horing
