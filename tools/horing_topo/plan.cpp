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
  if (gbytes_per_s == 0) return "GB/s unknown";
  return formatString(gbytes_per_s < 100 ? "%.3g GB/s" : "%.0f GB/s", gbytes_per_s);
}

std::string ringText(const MachinePlan& plan) {
  if (plan.ring.order.size() < 2) return "";
  std::string text;
  for (const int32_t member : plan.ring.order) text += plan.memberName(member) + " > ";
  return text + "back";
}

std::vector<std::string> railLines(const MachinePlan& plan) {
  std::vector<std::string> lines;
  std::set<int32_t> used;
  for (size_t member = 0; member < plan.rails.size(); ++member) {
    const Rail& rail = plan.rails[member];
    if (rail.nics.empty()) return {"no rail: the description has no NIC"};
    used.insert(rail.nics.begin(), rail.nics.end());
    std::string nics;
    for (const int32_t nic : rail.nics) nics += (nics.empty() ? "" : ", ") + plan.nodeName(nic);
    lines.push_back(formatString("rail %zu %s by %s: %s, %s", member,
                                 plan.memberName(static_cast<int32_t>(member)).c_str(), nics.c_str(),
                                 pathKindName(rail.path), bandwidthText(rail.gbytes_per_s).c_str()));
  }
  std::string spare;
  for (const int32_t nic : plan.graph.ofKind(NodeKind::kNic))
    if (!used.contains(nic)) spare += (spare.empty() ? "" : ", ") + plan.nodeName(nic);
  if (!spare.empty() && !lines.empty()) lines.push_back("no rail uses " + spare);
  return lines;
}

}  // namespace horing::topo
