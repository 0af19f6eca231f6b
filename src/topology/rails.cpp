#include "topology/rails.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace horing {

namespace {

// A path through the host is longer than any number of bridges.
constexpr int kFurtherThanBridges = 64;
constexpr int kFurtherThanPaths = 16 * kFurtherThanBridges;
static_assert(static_cast<int>(PathKind::kMachine) < 15);

// The speed of the port, or of the PCI link, or 0.
double speedOf(const GraphNode& nic) {
  return nic.port_gbytes_per_s > 0 ? nic.port_gbytes_per_s : nic.gbytes_per_s;
}

// Compares port speeds if any is known, since a PCI link may be far faster than the port.
double fastestOf(const MachineGraph& graph, const std::vector<int32_t>& nics) {
  double line = 0, link = 0;
  for (const int32_t nic : nics) {
    line = std::max(line, graph.node(nic).port_gbytes_per_s);
    link = std::max(link, graph.node(nic).gbytes_per_s);
  }
  return line > 0 ? line : link;
}

struct Choice {
  std::vector<int32_t> nearest, next;
};

Choice chooseNics(const MachineGraph& graph, int32_t home) {
  const std::map<std::string, int> distances = nicDistances(graph, home);
  std::set<int> ranked;
  for (const auto& [name, distance] : distances) ranked.insert(distance);
  Choice choice;
  for (const int32_t nic : graph.ofKind(NodeKind::kNic)) {
    const auto known = distances.find(graph.node(nic).name);
    if (known == distances.end() ? ranked.empty() : known->second == *ranked.begin())
      choice.nearest.push_back(nic);
    else if (known != distances.end() && known->second == *std::next(ranked.begin()))
      choice.next.push_back(nic);
  }
  return choice;
}

// The member's share of its NICs, of their lines and of their edges to the parent, limited by its own edge.
void bound(const MachineGraph& graph, int32_t member, const std::map<int32_t, int>& sharers, Rail& rail) {
  bool narrow_way = false;
  for (const int32_t nic : rail.nics) {
    const GraphNode& node = graph.node(nic);
    const double share = speedOf(node) / sharers.at(nic);
    const GraphPath path = graph.path(member, nic);
    double way = path.gbytes_per_s;
    if (node.gbytes_per_s > 0) way = std::min(way, node.gbytes_per_s / sharers.at(nic));
    narrow_way = narrow_way || (way > 0 && way < share);
    rail.is_assumed |= path.kind >= PathKind::kPackage && isAssumedRate(way) && (share == 0 || way < share);
    rail.gbytes_per_s += way == 0 ? share : std::min(way, share);
  }
  rail.is_assumed &= rail.gbytes_per_s > 0;
  if (rail.gbytes_per_s > 0) rail.bound = narrow_way ? Rail::Bound::kWay : Rail::Bound::kAdapters;
  const GraphNode& node = graph.node(member);
  const bool by_host_link = node.host_gbytes_per_s > 0 && rail.path != PathKind::kBridge;
  const double own = by_host_link ? node.host_gbytes_per_s : node.gbytes_per_s;
  if (node.kind != NodeKind::kGpu || own == 0 || own >= rail.gbytes_per_s) return;
  rail.gbytes_per_s = own;
  rail.is_assumed = false;
  rail.bound = Rail::Bound::kMember;
}

}  // namespace

std::map<std::string, int> nicDistances(const MachineGraph& graph, int32_t home) {
  std::map<std::string, int> distances;
  const std::vector<int32_t> nics = graph.ofKind(NodeKind::kNic);
  const double fastest = fastestOf(graph, nics);
  // A machine without NUMA nodes holds its PCI devices itself.
  const auto has_no_place = [&](int32_t nic) {
    return graph.node(nic).parent == 0 && graph.node(nic).bus.empty();
  };
  if (std::all_of(nics.begin(), nics.end(), has_no_place)) home = 0;
  // A bond has no place either: it counts where all that the machine itself holds on PCI is far slower.
  const bool has_fast_place = std::any_of(nics.begin(), nics.end(), [&](int32_t nic) {
    const double speed = speedOf(graph.node(nic));
    return graph.node(nic).parent != 0 || (!has_no_place(nic) && (speed == 0 || 2 * speed >= fastest));
  });
  const bool is_gpu = graph.node(home).kind == NodeKind::kGpu;
  for (const int32_t nic : nics) {
    const GraphNode& node = graph.node(nic);
    if (has_no_place(nic) && has_fast_place && home != 0) continue;
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
    Choice choice = chooseNics(graph, members[member]);
    rails[member].nics = std::move(choice.nearest);
    rails[member].next = std::move(choice.next);
    for (const int32_t nic : rails[member].nics) ++sharers[nic];
  }
  for (size_t member = 0; member < members.size(); ++member) {
    Rail& rail = rails[member];
    if (rail.nics.empty()) continue;
    rail.path = graph.path(members[member], rail.nics[0]).kind;
    rail.sharers = sharers.at(rail.nics[0]);
    if (!rail.next.empty()) rail.next_path = graph.path(members[member], rail.next[0]).kind;
    bound(graph, members[member], sharers, rail);
  }
  return rails;
}

}  // namespace horing
