#include <map>
#include <nlohmann/json.hpp>

#include "plan.h"

namespace horing::topo {

namespace {

constexpr int kNameColumn = 46;

std::string nodeLine(const MachinePlan& plan, int32_t index, int depth) {
  const GraphNode& node = plan.graph.node(index);
  std::string line(2 * static_cast<size_t>(depth), ' ');
  line += plan.nodeName(index);
  if (!node.bus.empty() && node.bus != node.name) line += "  " + node.bus;
  if (node.kind == NodeKind::kGpu) line += "  " + node.bus;
  const bool device =
      node.kind == NodeKind::kGpu || node.kind == NodeKind::kNic || node.kind == NodeKind::kBridge;
  std::string facts;
  if (device && (node.gbytes_per_s > 0 || !node.bus.empty())) facts = bandwidthText(node.gbytes_per_s);
  if (node.kind == NodeKind::kNic && node.port_gbytes_per_s == 0 && node.gbytes_per_s > 0)
    facts += ", line unknown";
  if (node.host_gbytes_per_s > 0) facts += ", to the processor " + bandwidthText(node.host_gbytes_per_s);
  if (node.port_gbytes_per_s > 0)
    facts += (facts.empty() ? "line " : ", line ") + bandwidthText(node.port_gbytes_per_s);
  if (!node.detail.empty()) facts += (facts.empty() ? "" : "  ") + node.detail;
  if (!facts.empty())
    line +=
        std::string(static_cast<size_t>(std::max<int>(2, kNameColumn - static_cast<int>(line.size()))), ' ') +
        facts;
  return line + "\n";
}

void printTree(const MachinePlan& plan, int32_t index, int depth, std::string& text) {
  text += nodeLine(plan, index, depth);
  for (const int32_t child : plan.graph.childrenOf(index))
    if (plan.graph.node(child).kind != NodeKind::kFabric) printTree(plan, child, depth + 1, text);
}

// One line for each width that links have.
std::string linksText(const MachinePlan& plan) {
  std::map<double, std::string, std::greater<>> by_width;
  for (const GraphLink& link : plan.graph.links()) {
    std::string& pairs = by_width[link.gbytes_per_s];
    pairs += (pairs.empty() ? "" : ", ") + plan.nodeName(link.a) + "-" + plan.nodeName(link.b);
  }
  std::string text;
  for (const auto& [gbytes_per_s, pairs] : by_width)
    text += "  " + bandwidthText(gbytes_per_s) + ": " + pairs + "\n";
  return text;
}

}  // namespace

std::string planAsText(const MachinePlan& plan) {
  std::string text = summary(plan.graph) + "\n\n";
  printTree(plan, 0, 0, text);
  if (!plan.graph.links().empty()) text += "\ndirect links\n" + linksText(plan);
  const std::string ring = ringText(plan);
  text += "\nring   " +
          (ring.empty()
               ? plan.members.empty() ? "none: there is neither a GPU nor a NUMA node" : "none: one member"
               : ring) +
          "\n";
  for (const std::string& line : ringReasons(plan)) text += "       " + line + "\n";
  for (const std::string& line : railLines(plan)) text += line + "\n";
  for (const std::string& line : railReasons(plan)) text += line + "\n";
  return text;
}

std::string planAsJson(const MachinePlan& plan) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array();
  for (const GraphNode& node : plan.graph.nodes())
    nodes.push_back({{"kind", nodeKindName(node.kind)},
                     {"name", node.name},
                     {"parent", node.parent},
                     {"bus", node.bus},
                     {"gbytes_per_s", node.gbytes_per_s},
                     {"port_gbytes_per_s", node.port_gbytes_per_s},
                     {"host_gbytes_per_s", node.host_gbytes_per_s},
                     {"detail", node.detail}});
  Json links = Json::array();
  for (const GraphLink& link : plan.graph.links())
    links.push_back({{"a", link.a}, {"b", link.b}, {"gbytes_per_s", link.gbytes_per_s}});
  Json ring = {{"members", Json::array()},
               {"gbytes_per_s", plan.ring.gbytes_per_s},
               {"farthest", pathKindName(plan.ring.worst)},
               {"host_hops", plan.ring.host_hops},
               {"reasons", ringReasons(plan)},
               {"tree_gbytes_per_s", plan.ring.tree_gbytes_per_s},
               {"tree_host_hops", plan.ring.tree_host_hops}};
  for (const int32_t member : plan.ring.order)
    ring["members"].push_back(plan.members[static_cast<size_t>(member)]);
  Json rails = Json::array();
  for (size_t member = 0; member < plan.rails.size(); ++member)
    rails.push_back({{"member", plan.members[member]},
                     {"nics", plan.rails[member].nics},
                     {"gbytes_per_s", plan.rails[member].gbytes_per_s},
                     {"assumed", plan.rails[member].is_assumed},
                     {"path", pathKindName(plan.rails[member].path)},
                     {"sharers", plan.rails[member].sharers},
                     {"next", plan.rails[member].next}});
  return Json({{"nodes", nodes},
               {"links", links},
               {"ring", ring},
               {"rails", rails},
               {"remarks", plan.graph.remarks()}})
             .dump(2) +
         "\n";
}

}  // namespace horing::topo
