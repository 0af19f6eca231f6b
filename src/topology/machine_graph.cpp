#include "topology/machine_graph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace horing {

namespace {

constexpr size_t kMaxDetailBytes = 200;

bool isPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

bool isBandwidth(double value) {
  return std::isfinite(value) && value >= 0 && value <= kMaxGBytesPerS;
}

bool holdsOthers(NodeKind kind) {
  return kind == NodeKind::kMachine || kind == NodeKind::kPackage || kind == NodeKind::kNuma ||
         kind == NodeKind::kBridge;
}

// "topology: line 12", or without a line if it is unknown.
std::string placeOf(std::span<const int32_t> lines, size_t index) {
  const int32_t line = index < lines.size() ? lines[index] : 0;
  return line > 0 ? formatString("topology: line %d", line) : "topology";
}

Status checkNode(const std::vector<GraphNode>& nodes, size_t index, std::span<const int32_t> lines) {
  const GraphNode& node = nodes[index];
  const auto wrong = [&](const char* what) {
    return makeStatus(Code::kInvalidArgument, "%s: %s '%.63s' %s", placeOf(lines, index).c_str(),
                      nodeKindName(node.kind), isPrintable(node.name) ? node.name.c_str() : "?", what);
  };
  if (node.name.size() > kMaxNodeNameBytes || !isPrintable(node.name)) return wrong("has an unusable name");
  if (node.detail.size() > kMaxDetailBytes || !isPrintable(node.detail))
    return wrong("has an unusable description");
  if (node.bus.size() > kMaxNodeNameBytes || !isPrintable(node.bus))
    return wrong("has an unusable PCI address");
  if (!isBandwidth(node.gbytes_per_s) || !isBandwidth(node.port_gbytes_per_s) ||
      !isBandwidth(node.host_gbytes_per_s))
    return wrong("has a bandwidth that cannot be");
  if (index == 0)
    return node.kind == NodeKind::kMachine && node.parent == -1 ? Status() : wrong("is not a machine");
  if (node.kind == NodeKind::kMachine) return wrong("is a second machine");
  if (node.parent < 0 || static_cast<size_t>(node.parent) >= index) return wrong("has no place in the tree");
  if (!holdsOthers(nodes[static_cast<size_t>(node.parent)].kind))
    return wrong("hangs below something that holds nothing");
  return {};
}

Status checkLink(const std::vector<GraphNode>& nodes, const GraphLink& link) {
  const auto size = static_cast<int32_t>(nodes.size());
  const bool there = link.a >= 0 && link.a < link.b && link.b < size && isBandwidth(link.gbytes_per_s);
  return there ? Status()
               : makeStatus(Code::kInvalidArgument, "topology: a link from node %d to node %d cannot be",
                            link.a, link.b);
}

}  // namespace

const char* nodeKindName(NodeKind kind) {
  constexpr const char* kNames[kNodeKinds] = {"machine", "package", "numa", "bridge", "gpu", "nic", "fabric"};
  return kNames[static_cast<size_t>(kind)];
}

const char* pathKindName(PathKind kind) {
  constexpr const char* kNames[] = {"in one place",  "direct link", "one PCIe switch",
                                    "one NUMA node", "one package", "across the machine"};
  return kNames[static_cast<size_t>(kind)];
}

double pcieGBytesPerS(double giga_transfers, int lanes) {
  // 8 of 10 bits carry data up to 5 GT/s, 128 of 130 from 8 GT/s, 242 of 256 bytes from 64 GT/s.
  const double efficiency = giga_transfers < 8 ? 0.8 : giga_transfers < 64 ? 128.0 / 130.0 : 242.0 / 256.0;
  return giga_transfers * efficiency / 8 * lanes;
}

Result<MachineGraph> MachineGraph::make(std::vector<GraphNode> nodes, std::vector<GraphLink> links,
                                        std::span<const int32_t> lines) {
  if (nodes.empty() || nodes.size() > kMaxGraphNodes || links.size() > kMaxGraphLinks)
    return makeStatus(Code::kInvalidArgument,
                      "topology: %zu nodes and %zu links; there must be 1 to %zu, and at most %zu",
                      nodes.size(), links.size(), kMaxGraphNodes, kMaxGraphLinks);
  std::set<std::pair<NodeKind, std::string_view>> names;
  for (size_t index = 0; index < nodes.size(); ++index) {
    HORING_TRY(checkNode(nodes, index, lines));
    if (!names.emplace(nodes[index].kind, nodes[index].name).second)
      return makeStatus(Code::kInvalidArgument, "%s: %s '%s' is there twice", placeOf(lines, index).c_str(),
                        nodeKindName(nodes[index].kind), nodes[index].name.c_str());
  }
  for (const GraphLink& link : links) HORING_TRY(checkLink(nodes, link));
  const auto ends = [](const GraphLink& link) { return std::pair(link.a, link.b); };
  std::sort(links.begin(), links.end(), [&](const auto& x, const auto& y) { return ends(x) < ends(y); });
  const auto twice = std::adjacent_find(links.begin(), links.end(),
                                        [&](const auto& x, const auto& y) { return ends(x) == ends(y); });
  if (twice != links.end())
    return makeStatus(Code::kInvalidArgument, "topology: nodes %d and %d are linked twice", twice->a,
                      twice->b);
  MachineGraph graph;
  graph.nodes_ = std::move(nodes);
  graph.links_ = std::move(links);
  graph.walkTree();
  graph.fabrics_ = graph.ofKind(NodeKind::kFabric);
  if (graph.fabrics_.size() > kMaxFabrics)
    return makeStatus(Code::kInvalidArgument, "topology: more than %zu fabrics", kMaxFabrics);
  return graph;
}

void MachineGraph::walkTree() {
  std::vector<std::vector<int32_t>> children(nodes_.size());
  for (size_t index = 1; index < nodes_.size(); ++index)
    children[static_cast<size_t>(nodes_[index].parent)].push_back(static_cast<int32_t>(index));
  tree_position_.resize(nodes_.size());
  std::vector<int32_t> open = {0};
  for (int32_t position = 0; !open.empty(); ++position) {
    const auto index = static_cast<size_t>(open.back());
    open.pop_back();
    tree_position_[index] = position;
    open.insert(open.end(), children[index].rbegin(), children[index].rend());
  }
}

std::optional<int32_t> MachineGraph::find(NodeKind kind, std::string_view name) const {
  for (size_t index = 0; index < nodes_.size(); ++index)
    if (nodes_[index].kind == kind && nodes_[index].name == name) return static_cast<int32_t>(index);
  return std::nullopt;
}

std::vector<int32_t> MachineGraph::ofKind(NodeKind kind) const {
  std::vector<int32_t> found;
  for (size_t index = 0; index < nodes_.size(); ++index)
    if (nodes_[index].kind == kind) found.push_back(static_cast<int32_t>(index));
  std::sort(found.begin(), found.end(),
            [&](int32_t a, int32_t b) { return treePosition(a) < treePosition(b); });
  return found;
}

std::vector<int32_t> MachineGraph::childrenOf(int32_t index) const {
  std::vector<int32_t> children;
  for (size_t child = 1; child < nodes_.size(); ++child)
    if (nodes_[child].parent == index) children.push_back(static_cast<int32_t>(child));
  return children;
}

int32_t MachineGraph::within(int32_t index, NodeKind kind) const {
  while (index >= 0 && node(index).kind != kind) index = node(index).parent;
  return index;
}

double MachineGraph::linkGBytesPerS(int32_t from, int32_t to) const {
  const std::pair<int32_t, int32_t> ends = std::minmax(from, to);
  const auto found =
      std::lower_bound(links_.begin(), links_.end(), ends,
                       [](const GraphLink& link, const auto& e) { return std::pair(link.a, link.b) < e; });
  return found != links_.end() && found->a == ends.first && found->b == ends.second ? found->gbytes_per_s : 0;
}

double MachineGraph::directGBytesPerS(int32_t from, int32_t to) const {
  double best = linkGBytesPerS(from, to);
  for (const int32_t fabric : fabrics_)
    best = std::max(best, std::min(linkGBytesPerS(from, fabric), linkGBytesPerS(fabric, to)));
  return best;
}

int32_t MachineGraph::commonHolder(int32_t a, int32_t b) const {
  // A parent has the lower index, so the higher of two ends is never the common ancestor.
  while (a != b) (a > b ? a : b) = node(a > b ? a : b).parent;
  return a;
}

void MachineGraph::climb(int32_t from, int32_t top, GraphPath& path) const {
  const auto pass = [&](double width) {
    if (width > 0 && (path.gbytes_per_s == 0 || width < path.gbytes_per_s)) path.gbytes_per_s = width;
    ++path.hops;
  };
  if (node(from).host_gbytes_per_s > 0 && node(top).kind != NodeKind::kBridge) {
    pass(node(from).host_gbytes_per_s);
    do from = node(from).parent;
    while (node(from).kind == NodeKind::kBridge);
  }
  for (; from != top; from = node(from).parent) pass(node(from).gbytes_per_s);
}

GraphPath MachineGraph::treePath(int32_t from, int32_t to) const {
  GraphPath path;
  const int32_t top = commonHolder(from, to);
  climb(from, top, path);
  climb(to, top, path);
  switch (node(top).kind) {
    case NodeKind::kBridge:
      path.kind = PathKind::kBridge;
      break;
    case NodeKind::kNuma:
      path.kind = PathKind::kNuma;
      break;
    case NodeKind::kPackage:
      path.kind = PathKind::kPackage;
      break;
    default:
      path.kind = PathKind::kMachine;
  }
  return path;
}

GraphPath MachineGraph::path(int32_t from, int32_t to, double enough) const {
  if (from == to) return {PathKind::kSame, 0, 0};
  const GraphPath tree = treePath(from, to);
  const double direct = directGBytesPerS(from, to);
  return direct > 0 && direct >= std::min(tree.gbytes_per_s, enough) ? GraphPath{PathKind::kDirect, direct, 1}
                                                                     : tree;
}

}  // namespace horing
