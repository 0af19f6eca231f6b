#include "topology/rails.h"

#include <algorithm>
#include <climits>

namespace horing {

namespace {

// What comes through the host is further away than any number of bridges.
constexpr int kFurtherThanBridges = 64;
constexpr int kFurtherThanPaths = 16 * kFurtherThanBridges;
static_assert(static_cast<int>(PathKind::kMachine) < 15);

// The line's speed, or that of its PCI link, or 0.
double speedOf(const GraphNode& nic) {
  return nic.port_gbytes_per_s > 0 ? nic.port_gbytes_per_s : nic.gbytes_per_s;
}

// Of lines, where somebody knows that of any, since a PCI link may be far wider than its line.
double fastestOf(const MachineGraph& graph, const std::vector<int32_t>& nics) {
  double line = 0, link = 0;
  for (const int32_t nic : nics) {
    line = std::max(line, graph.node(nic).port_gbytes_per_s);
    link = std::max(link, graph.node(nic).gbytes_per_s);
  }
  return line > 0 ? line : link;
}

std::vector<int32_t> nearestNics(const MachineGraph& graph, int32_t home) {
  const std::map<std::string, int> distances = nicDistances(graph, home);
  int least = INT_MAX;
  for (const auto& [name, distance] : distances) least = std::min(least, distance);
  std::vector<int32_t> nearest;
  for (const int32_t nic : graph.ofKind(NodeKind::kNic)) {
    const auto known = distances.find(graph.node(nic).name);
    if (known == distances.end() ? least == INT_MAX : known->second == least) nearest.push_back(nic);
  }
  return nearest;
}

// A part of its NICs, and no more than goes through the member's own way up.
double gbytesOf(const MachineGraph& graph, int32_t member, const Rail& rail,
                const std::map<int32_t, int>& sharers) {
  double all = 0;
  for (const int32_t nic : rail.nics) {
    const double share = speedOf(graph.node(nic)) / sharers.at(nic);
    const double way = graph.path(member, nic).gbytes_per_s;
    all += way == 0 ? share : std::min(way, share);
  }
  const GraphNode& node = graph.node(member);
  const bool has_link = node.kind == NodeKind::kGpu && node.gbytes_per_s > 0;
  return has_link ? std::min(all, node.gbytes_per_s) : all;
}

}  // namespace

std::map<std::string, int> nicDistances(const MachineGraph& graph, int32_t home) {
  std::map<std::string, int> distances;
  const std::vector<int32_t> nics = graph.ofKind(NodeKind::kNic);
  const double fastest = fastestOf(graph, nics);
  const bool is_gpu = graph.node(home).kind == NodeKind::kGpu;
  for (const int32_t nic : nics) {
    const GraphNode& node = graph.node(nic);
    if (node.parent == 0 && home != 0) continue;
    int& distance = distances[node.name];
    if (speedOf(node) > 0 && 2 * speedOf(node) < fastest) distance = kFurtherThanPaths;
    if (home == 0) continue;
    const GraphPath path = graph.path(home, nic);
    distance += static_cast<int>(path.kind) * kFurtherThanBridges;
    if (is_gpu && path.kind == PathKind::kBridge) distance += std::min(path.hops, kFurtherThanBridges - 1);
  }
  return distances;
}

std::vector<Rail> assignRails(const MachineGraph& graph, std::span<const int32_t> members) {
  std::vector<Rail> rails(members.size());
  std::map<int32_t, int> sharers;
  for (size_t member = 0; member < members.size(); ++member) {
    rails[member].nics = nearestNics(graph, members[member]);
    for (const int32_t nic : rails[member].nics) ++sharers[nic];
  }
  for (size_t member = 0; member < members.size(); ++member) {
    Rail& rail = rails[member];
    if (rail.nics.empty()) continue;
    rail.path = graph.path(members[member], rail.nics[0]).kind;
    rail.gbytes_per_s = gbytesOf(graph, members[member], rail, sharers);
  }
  return rails;
}

}  // namespace horing
