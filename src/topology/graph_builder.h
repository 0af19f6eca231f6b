#pragma once
// Collects nodes and links while a description of a machine is read, and makes a MachineGraph.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topology/machine_graph.h"

namespace horing {

class GraphBuilder {
 public:
  // Starts with the machine itself, node 0.
  explicit GraphBuilder(std::string machine_detail = "");

  // `line`: in the file, for errors; 0: none.
  int32_t add(GraphNode node, int32_t line = 0);
  GraphNode& node(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  // Both ends may name a link: the larger bandwidth counts. Ignores links from a node to itself.
  void link(int32_t a, int32_t b, double gbytes_per_s);

  // See MachineGraph::remarks().
  void remark(std::string sentence) { remarks_.push_back(std::move(sentence)); }

  // Removes bridges with fewer than two children. The bandwidth of a merged edge is the smallest of the edges that it replaces.
  Result<MachineGraph> build() &&;

 private:
  std::vector<GraphNode> nodes_;
  std::vector<int32_t> lines_;  // by node
  std::map<std::pair<int32_t, int32_t>, double> links_;
  std::vector<std::string> remarks_;
};

}  // namespace horing
