#pragma once
// Collects nodes and links while a description of a machine is read, and tidies them into a MachineGraph.
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

  // `line`: of the file that is read, for errors; 0: there is none.
  int32_t add(GraphNode node, int32_t line = 0);
  GraphNode& node(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  // Both ends may name one link: the larger figure counts. A link to itself is none.
  void link(int32_t a, int32_t b, double gbytes_per_s);

  // See MachineGraph::remarks().
  void remark(std::string sentence) { remarks_.push_back(std::move(sentence)); }

  // Leaves out bridges that join nothing: those with fewer than two things below them. A leaf's way up is then as wide
  // as the narrowest part of the way that it replaces.
  Result<MachineGraph> build() &&;

 private:
  std::vector<GraphNode> nodes_;
  std::vector<int32_t> lines_;  // of the nodes
  std::map<std::pair<int32_t, int32_t>, double> links_;
  std::vector<std::string> remarks_;
};

}  // namespace horing
