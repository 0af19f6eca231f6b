#include "topology/graph_builder.h"

#include <algorithm>

namespace horing {

namespace {

// Whether a node is kept: all nodes except bridges with fewer than two kept children.
std::vector<bool> whatStays(const std::vector<GraphNode>& nodes) {
  std::vector<int> children(nodes.size(), 0);  // kept children, or children replaced by a kept descendant
  std::vector<bool> stays(nodes.size(), true);
  for (size_t index = nodes.size(); index-- > 1;) {
    if (nodes[index].kind == NodeKind::kBridge) stays[index] = children[index] > 1;
    if (stays[index] || children[index] > 0) ++children[static_cast<size_t>(nodes[index].parent)];
  }
  return stays;
}

double narrower(double a, double b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

}  // namespace

GraphBuilder::GraphBuilder(std::string machine_detail) {
  GraphNode machine;
  machine.detail = std::move(machine_detail);
  add(std::move(machine));
}

int32_t GraphBuilder::add(GraphNode node, int32_t line) {
  nodes_.push_back(std::move(node));
  lines_.push_back(line);
  return static_cast<int32_t>(nodes_.size()) - 1;
}

void GraphBuilder::link(int32_t a, int32_t b, double gbytes_per_s) {
  if (a == b) return;
  double& known = links_[std::minmax(a, b)];
  known = std::max(known, gbytes_per_s);
}

Result<MachineGraph> GraphBuilder::build() && {
  const std::vector<bool> stays = whatStays(nodes_);
  std::vector<int32_t> renumbered(nodes_.size(), -1);
  std::vector<GraphNode> kept;
  std::vector<int32_t> lines;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    if (!stays[index]) continue;
    GraphNode node = std::move(nodes_[index]);
    while (node.parent >= 0 && !stays[static_cast<size_t>(node.parent)]) {
      const GraphNode& skipped = nodes_[static_cast<size_t>(node.parent)];
      node.gbytes_per_s = narrower(node.gbytes_per_s, skipped.gbytes_per_s);
      node.parent = skipped.parent;
    }
    if (node.parent >= 0) node.parent = renumbered[static_cast<size_t>(node.parent)];
    renumbered[index] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(node));
    lines.push_back(lines_[index]);
  }
  std::vector<GraphLink> links;
  for (const auto& [ends, gbytes_per_s] : links_) {
    const int32_t a = renumbered[static_cast<size_t>(ends.first)];
    const int32_t b = renumbered[static_cast<size_t>(ends.second)];
    links.push_back({a, b, gbytes_per_s});
  }
  HORING_ASSIGN(MachineGraph graph, MachineGraph::make(std::move(kept), std::move(links), lines));
  graph.setRemarks(std::move(remarks_));
  return graph;
}

}  // namespace horing
