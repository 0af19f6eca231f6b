#pragma once
// The hardware and settings of a node, and the differences between nodes.
#include <map>
#include <string>
#include <vector>

#include "topology/machine_graph.h"

namespace horing::check {

// Human-readable names and values.
using NodeFacts = std::map<std::string, std::string>;

// The value of a fact whose file may not be read.
inline constexpr const char* kNoRights = "no right to read it";

// The first line of this file; empty if there is none, kNoRights if this process may not read it.
std::string factIn(const std::string& path);

// The interfaces that horing would use, but for bridges of containers and virtual machines.
std::vector<std::string> interfacesInUse();

// The facts of this machine, as far as they can be read.
NodeFacts gatherNodeFacts(const Result<MachineGraph>& graph);

// Encoding for other nodes, and decoding; malformed text gives the readable part.
std::string factsToText(const NodeFacts& facts);
NodeFacts factsFromText(const std::string& text);

struct Difference {
  std::string name;
  std::string usual;  // the value of most nodes
  std::string value;  // the value of these nodes; empty: missing
  std::vector<int> nodes;
};
// By name, without nodes that may not read a fact. If two values are equally frequent, the value of the lower node is the usual one.
std::vector<Difference> differences(const std::vector<NodeFacts>& of_nodes);

// By name of a fact: the nodes that may not read it.
std::map<std::string, std::vector<int>> unreadable(const std::vector<NodeFacts>& of_nodes);

}  // namespace horing::check
