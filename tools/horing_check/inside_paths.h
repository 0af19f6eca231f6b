#pragma once
// How fast data moves between the parts of a node: from NUMA node to NUMA node, between GPUs, and between a GPU and the host.
#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing_check/diagnosis.h"
#include "horing_check/nodes.h"
#include "topology/machine_graph.h"

namespace horing::check {

struct InsidePath {
  // What both ends are, and what joins them: "GPU to GPU, direct link of 450.00 GB/s". Paths of one kind are compared.
  std::string kind;
  std::string from, to;  // "GPU 1", "NUMA node 0", "host"
  double bytes_per_s = 0;
  bool is_wrong = false;  // other bytes arrived
};

struct InsidePaths {
  std::vector<InsidePath> all;
  std::string left_out;  // why some are missing; empty: none is
};

// Encoding for other nodes, and decoding; malformed text gives the readable part.
std::string pathsToText(const InsidePaths& paths);
InsidePaths pathsFromText(const std::string& text);

// By node: keeps the better rate of each path, since disturbances only slow.
void keepBest(InsidePaths& best, const InsidePaths& again);

// What is slower than other paths of its kind, on nodes with the same processor and on the node itself, by more than these differ among each
// other. A GPU most of whose paths of a kind are slow is named in their place. Pure. `processors`: by node.
std::vector<Finding> comparePaths(const std::vector<InsidePaths>& of_nodes,
                                  const std::vector<std::string>& processors, bool confirmed);

// All nodes at once, each its own.
class InsidePathMeter {
 public:
  // Collective over the nodes, which all decide the same. A node measures nothing that it could not end by `latest`. Errors: the library's.
  // `graph`: of this machine.
  Status measure(Nodes& nodes, const std::vector<std::string>& processors, const Result<MachineGraph>& graph,
                 std::chrono::steady_clock::time_point latest);
  const std::vector<InsidePaths>& paths() const { return paths_; }  // by node
  // What is slow. It is confirmed once `measure` has run twice.
  std::vector<Finding> findings() const { return comparePaths(paths_, processors_, times_ > 1); }

 private:
  std::vector<InsidePaths> paths_;
  std::vector<std::string> processors_;
  int times_ = 0;
};

}  // namespace horing::check
