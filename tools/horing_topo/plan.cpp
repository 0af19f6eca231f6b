#include "plan.h"

#include <algorithm>
#include <set>

namespace horing::topo {

MachinePlan planMachine(MachineGraph graph) {
  MachinePlan plan{std::move(graph), {}, {}, {}};
  plan.members = plan.graph.ofKind(NodeKind::kGpu);
  // As CUDA_DEVICE_ORDER=PCI_BUS_ID numbers them.
  std::sort(plan.members.begin(), plan.members.end(),
            [&](int32_t a, int32_t b) { return plan.graph.node(a).bus < plan.graph.node(b).bus; });
  if (plan.members.empty()) plan.members = plan.graph.ofKind(NodeKind::kNuma);
  plan.ring = searchRing(plan.graph, plan.members);
  plan.rails = assignRails(plan.graph, plan.members);
  return plan;
}

std::string MachinePlan::memberName(int32_t member) const {
  const GraphNode& node = graph.node(members[static_cast<size_t>(member)]);
  return node.kind == NodeKind::kGpu ? "GPU" + std::to_string(member) : "NUMA " + node.name;
}

std::string MachinePlan::nodeName(int32_t node) const {
  const GraphNode& thing = graph.node(node);
  switch (thing.kind) {
    case NodeKind::kGpu:
      return memberName(
          static_cast<int32_t>(std::find(members.begin(), members.end(), node) - members.begin()));
    case NodeKind::kNic:
    case NodeKind::kFabric:
      return thing.name;
    case NodeKind::kBridge:
      return "PCIe switch " + thing.name;
    case NodeKind::kMachine:
      return "machine";
    default:
      return nodeKindName(thing.kind) + (" " + thing.name);
  }
}

std::string summary(const MachineGraph& graph) {
  std::string text;
  constexpr std::pair<NodeKind, const char*> kCounted[] = {{NodeKind::kPackage, "package"},
                                                           {NodeKind::kNuma, "NUMA node"},
                                                           {NodeKind::kGpu, "GPU"},
                                                           {NodeKind::kNic, "NIC"}};
  for (const auto& [kind, noun] : kCounted) {
    const size_t count = graph.ofKind(kind).size();
    if (count == 0) continue;
    text += formatString("%s%zu %s%s", text.empty() ? "" : ", ", count, noun, count == 1 ? "" : "s");
  }
  return text.empty() ? "nothing that horing knows" : text;
}

std::string bandwidthText(double gbytes_per_s) {
  if (gbytes_per_s == 0) return "speed unknown";
  return formatString(gbytes_per_s < 100 ? "%.3g GB/s" : "%.0f GB/s", gbytes_per_s);
}

std::string railsText(const std::vector<size_t>& rails) {
  std::string text;
  for (size_t i = 0; i < rails.size();) {
    size_t last = i;
    while (last + 1 < rails.size() && rails[last + 1] == rails[last] + 1) ++last;
    text += (i == 0 ? "" : ",") + std::to_string(rails[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(rails[last]);
    i = last + 1;
  }
  return text.empty() ? "no rail" : (rails.size() == 1 ? "rail " : "rails ") + text;
}

std::string ringText(const MachinePlan& plan) {
  if (plan.ring.order.size() < 2) return "";
  std::string text;
  for (const int32_t member : plan.ring.order) text += plan.memberName(member) + " > ";
  return text + "back";
}

namespace {

std::string whyNoWider(const MachinePlan& plan) {
  using Outcome = CycleSearch::Outcome;
  const Ring& ring = plan.ring;
  const std::string stuck = ring.stuck < 0 ? "" : plan.memberName(ring.stuck);
  switch (ring.why_no_wider) {
    case Outcome::kFewEdges:
      return stuck + " has fewer than two";
    case Outcome::kApart:
      return "they do not join all";
    case Outcome::kCutVertex:
      return "all ways between some of the others lead through " + stuck;
    case Outcome::kNone:
      return "all orders were ruled out";
    default:
      return "none was found, which is no proof";
  }
}

// Of a ring or a way. Descriptions do not give the rates between NUMA nodes and between packages.
std::string rateText(double gbytes_per_s, bool is_assumed) {
  return bandwidthText(gbytes_per_s) + (is_assumed ? " (assumed)" : "");
}

std::string hopsText(double gbytes_per_s, int32_t host_hops) {
  return rateText(gbytes_per_s, host_hops > 0 && isAssumedRate(gbytes_per_s)) +
         formatString(", %d hop%s through the host", host_hops, host_hops == 1 ? "" : "s");
}

std::string listed(const MachinePlan& plan, const std::vector<int32_t>& nodes) {
  std::string text;
  for (const int32_t node : nodes) text += (text.empty() ? "" : ", ") + plan.nodeName(node);
  return text;
}

constexpr size_t kMostNamed = 2;  // of adapters that would be next

// Of adapters whose line is unknown the PCIe link is what is known.
std::string adaptersText(const MachineGraph& graph, const Rail& rail) {
  std::string text = "bound by the adapters";
  if (rail.sharers > 1) text += formatString(", which %d share", rail.sharers);
  const bool knows_lines = std::all_of(rail.nics.begin(), rail.nics.end(),
                                       [&](int32_t nic) { return graph.node(nic).port_gbytes_per_s > 0; });
  return knows_lines ? text : text + " (their PCIe links: the speed of a line is unknown)";
}

std::string boundText(const MachineGraph& graph, const Rail& rail) {
  switch (rail.bound) {
    case Rail::Bound::kAdapters:
      return adaptersText(graph, rail);
    case Rail::Bound::kWay:
      return "bound by the way to the adapters";
    case Rail::Bound::kMember:
      return "bound by the GPU's own link";
    case Rail::Bound::kUnknown:
      break;
  }
  return "speed unknown";
}

}  // namespace

std::vector<std::string> ringReasons(const MachinePlan& plan) {
  const Ring& ring = plan.ring;
  if (ring.order.size() < 2) return {};
  const bool is_assumed = ring.worst >= PathKind::kPackage && isAssumedRate(ring.gbytes_per_s);
  std::vector<std::string> lines = {"narrowest hop " + rateText(ring.gbytes_per_s, is_assumed) +
                                    "; farthest: " + pathKindName(ring.worst)};
  if (ring.gbytes_per_s > 0) {
    const auto members = static_cast<double>(ring.order.size());
    const double ms = 2 * (members - 1) / members * (1 << 30) / ring.gbytes_per_s / 1e6;
    lines.push_back(formatString("an all-reduce of 1 GiB by this ring takes %.3g ms or more%s", ms,
                                 is_assumed ? ", if what is assumed holds" : ""));
  }
  if (ring.wider_gbytes_per_s > 0)
    lines.push_back("no ring has only hops of " +
                    rateText(ring.wider_gbytes_per_s, isAssumedRate(ring.wider_gbytes_per_s)) +
                    " and more: " + whyNoWider(plan));
  const bool is_plain = ring.tree_gbytes_per_s == ring.gbytes_per_s && ring.tree_host_hops == ring.host_hops;
  lines.push_back(is_plain ? "as good as the order of the machine"
                           : "the order of the machine would have " +
                                 hopsText(ring.tree_gbytes_per_s, ring.tree_host_hops) + "; this ring has " +
                                 hopsText(ring.gbytes_per_s, ring.host_hops));
  return lines;
}

std::vector<std::string> railLines(const MachinePlan& plan) {
  std::vector<std::string> lines;
  std::set<int32_t> used;
  for (size_t member = 0; member < plan.rails.size(); ++member) {
    const Rail& rail = plan.rails[member];
    if (rail.nics.empty()) return {"no rail: the description has no NIC"};
    used.insert(rail.nics.begin(), rail.nics.end());
    lines.push_back(formatString("rail %zu %s by %s: %s, %s", member,
                                 plan.memberName(static_cast<int32_t>(member)).c_str(),
                                 listed(plan, rail.nics).c_str(), pathKindName(rail.path),
                                 rateText(rail.gbytes_per_s, rail.is_assumed).c_str()));
  }
  std::string spare;
  for (const int32_t nic : plan.graph.ofKind(NodeKind::kNic))
    if (!used.contains(nic)) spare += (spare.empty() ? "" : ", ") + plan.nodeName(nic);
  if (!spare.empty() && !lines.empty()) lines.push_back("no rail uses " + spare);
  return lines;
}

std::vector<std::string> railReasons(const MachinePlan& plan) {
  std::vector<std::pair<std::string, std::vector<size_t>>> reasons;
  for (size_t member = 0; member < plan.rails.size(); ++member) {
    const Rail& rail = plan.rails[member];
    if (rail.nics.empty()) return {};
    std::string reason = boundText(plan.graph, rail);
    const size_t others = rail.next.size();
    if (others > 0)
      reason += "; next would be " +
                (others > kMostNamed ? formatString("%zu others", others) : listed(plan, rail.next)) + " (" +
                pathKindName(rail.next_path) + ")";
    const auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& each) { return each.first == reason; });
    if (same == reasons.end())
      reasons.emplace_back(std::move(reason), std::vector{member});
    else
      same->second.push_back(member);
  }
  std::vector<std::string> lines;
  for (const auto& [reason, members] : reasons) lines.push_back(railsText(members) + ": " + reason);
  return lines;
}

}  // namespace horing::topo
