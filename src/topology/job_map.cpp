#include "topology/job_map.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <unordered_map>

#include "topology/ring_search.h"

namespace horing {

namespace {

// Merges the fragments of one node into one graph.
class Assembly {
 public:
  // Adds a fragment; returns its home in the graph.
  Result<int32_t> add(const Fragment& fragment) {
    std::vector<int32_t> known(fragment.nodes.size(), 0);
    for (size_t index = 1; index < fragment.nodes.size(); ++index) {
      GraphNode node = fragment.nodes[index];
      node.parent = known[static_cast<size_t>(node.parent)];
      const auto [found, is_new] =
          index_of_.try_emplace({node.kind, node.name}, static_cast<int32_t>(nodes_.size()));
      known[index] = found->second;
      if (is_new)
        nodes_.push_back(std::move(node));
      else if (nodes_[static_cast<size_t>(found->second)] != node)
        return makeStatus(Code::kInvalidUsage, "%s %s", nodeKindName(node.kind), node.name.c_str());
    }
    return known[static_cast<size_t>(fragment.home)];
  }

  // After all fragments: adds the links of the fragment at `home`. Both ends of a link report it.
  Status addLinks(const Fragment& fragment, int32_t home) {
    for (const FragmentLink& link : fragment.links) {
      const auto other = index_of_.find({link.kind, link.name});
      if (other == index_of_.end() || other->second == home) continue;  // no rank at the other end
      const auto [known, is_new] = links_.try_emplace(std::minmax(home, other->second), link.gbytes_per_s);
      if (!is_new && known->second != link.gbytes_per_s)
        return makeStatus(Code::kInvalidUsage, "the link to %s %s", nodeKindName(link.kind),
                          link.name.c_str());
    }
    return {};
  }

  Result<MachineGraph> graph() && {
    std::vector<GraphLink> links;
    for (const auto& [ends, gbytes_per_s] : links_) links.push_back({ends.first, ends.second, gbytes_per_s});
    return MachineGraph::make(std::move(nodes_), std::move(links));
  }

 private:
  std::vector<GraphNode> nodes_ = {GraphNode()};
  std::map<std::pair<NodeKind, std::string>, int32_t> index_of_;
  std::map<std::pair<int32_t, int32_t>, double> links_;
};

struct Laid {
  std::vector<int32_t> order;  // indices into the node's ranks
  std::vector<std::string> rails;
};

std::string railText(const MachineGraph& graph, const Rail& rail) {
  std::string text;
  for (const int32_t nic : rail.nics) text += (text.empty() ? "" : "+") + graph.node(nic).name;
  if (!text.empty() && rail.gbytes_per_s > 0) text += formatString(" %.3g GB/s", rail.gbytes_per_s);
  return text;
}

Result<Laid> layNode(const std::vector<size_t>& ranks, std::span<const Fragment> fragment_of_rank) {
  Assembly assembly;
  std::vector<int32_t> homes;
  const auto contradicts = [](size_t rank, const Status& what) {
    return makeStatus(Code::kInvalidUsage, "rank %zu sees %s differently than the ranks before it", rank,
                      what.message().c_str());
  };
  for (const size_t rank : ranks) {
    const Result<int32_t> home = assembly.add(fragment_of_rank[rank]);
    if (!home.ok()) return contradicts(rank, home.status());
    homes.push_back(home.value());
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    if (const Status added = assembly.addLinks(fragment_of_rank[ranks[i]], homes[i]); !added.ok())
      return contradicts(ranks[i], added);
  HORING_ASSIGN(const MachineGraph graph, std::move(assembly).graph());
  Laid laid;
  laid.order = searchRing(graph, homes).order;
  for (const Rail& rail : assignRails(graph, homes)) laid.rails.push_back(railText(graph, rail));
  return laid;
}

}  // namespace

Fragment fragmentOf(const MachineGraph& graph, int32_t home) {
  std::vector<int32_t> nics = graph.ofKind(NodeKind::kNic);
  const std::map<std::string, int> distances = nicDistances(graph, home);
  const auto distance = [&](int32_t nic) {
    const auto known = distances.find(graph.node(nic).name);
    return known == distances.end() ? INT_MAX : known->second;
  };
  std::stable_sort(nics.begin(), nics.end(), [&](int32_t a, int32_t b) { return distance(a) < distance(b); });
  if (nics.size() > kMaxFragmentNics) nics.resize(kMaxFragmentNics);
  std::vector<int32_t> wanted = {home};
  Fragment fragment;
  for (const GraphLink& link : graph.links()) {
    if ((link.a != home && link.b != home) || fragment.links.size() == kMaxFragmentLinks) continue;
    const int32_t other = link.a == home ? link.b : link.a;
    fragment.links.push_back({graph.node(other).kind, graph.node(other).name, link.gbytes_per_s});
    if (graph.node(other).kind == NodeKind::kFabric) wanted.push_back(other);
  }
  wanted.insert(wanted.end(), nics.begin(), nics.end());
  std::set<int32_t> taken = {0};  // in graph order, parents first
  for (int32_t node : wanted) {
    std::set<int32_t> with = taken;
    for (; node >= 0; node = graph.node(node).parent) with.insert(node);
    if (with.size() <= kMaxFragmentNodes) taken = std::move(with);
  }
  std::map<int32_t, int32_t> renumbered = {{0, 0}};
  for (const int32_t node : taken) {
    if (node == 0) continue;
    GraphNode part = graph.node(node);
    part.parent = renumbered[part.parent];
    part.detail.clear();
    part.cpus.clear();
    renumbered[node] = static_cast<int32_t>(fragment.nodes.size());
    fragment.nodes.push_back(std::move(part));
  }
  fragment.home = renumbered[home];
  return fragment;
}

int32_t homeOf(const MachineGraph& graph, const std::vector<int32_t>& cpus) {
  int32_t home = 0;
  for (const int32_t numa : graph.ofKind(NodeKind::kNuma)) {
    const std::vector<int32_t>& own = graph.node(numa).cpus;
    if (std::includes(own.begin(), own.end(), cpus.begin(), cpus.end()) && !cpus.empty()) {
      if (home != 0) return 0;
      home = numa;
    }
  }
  return home;
}

JobMap layJob(std::span<const std::string> node_of_rank, std::span<const Fragment> fragment_of_rank) {
  JobMap map;
  map.precedence.resize(node_of_rank.size());
  map.rails.resize(node_of_rank.size());
  std::unordered_map<std::string_view, size_t> index_of;
  std::vector<std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const size_t node = index_of.try_emplace(node_of_rank[rank], ranks_of.size()).first->second;
    if (node == ranks_of.size()) ranks_of.emplace_back();
    ranks_of[node].push_back(rank);
  }
  int32_t next = 0;
  for (const std::vector<size_t>& ranks : ranks_of) {
    Result<Laid> laid = layNode(ranks, fragment_of_rank);
    if (!laid.ok()) {
      map.warnings.push_back(
          "the ranks of one node contradict each other about it (" + laid.status().message() +
          "): they keep their plain order. Give all of them one HORING_TOPO_FILE, or none");
      for (const size_t rank : ranks) map.precedence[rank] = next++;
      continue;
    }
    for (const int32_t place : laid.value().order) map.precedence[ranks[static_cast<size_t>(place)]] = next++;
    for (size_t i = 0; i < ranks.size(); ++i) map.rails[ranks[i]] = laid.value().rails[i];
  }
  return map;
}

}  // namespace horing
