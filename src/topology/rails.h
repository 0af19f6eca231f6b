#pragma once
// Which NICs a rank sends to other machines through: what its transports choose by, and what is printed and drawn.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "topology/machine_graph.h"

namespace horing {

// How far away each NIC is from this node of the graph, by name: smaller is nearer, and transports use all of the nearest ones at once.
// From a GPU, NICs that it reaches without the host by the bridges between. One less than half as fast as the fastest is further than any
// that is not: a line for maintenance. From the machine (a rank that may run anywhere) all others are equally near. Nothing of a
// NIC whose place nobody knows (a bond, a bridge), unless the rank's is not known either.
std::map<std::string, int> nicDistances(const MachineGraph& graph, int32_t home);

struct Rail {
  std::vector<int32_t> nics;        // nodes, in the order of the tree; empty: the machine has none
  double gbytes_per_s = 0;          // of all of them together while all members send; 0: nobody said
  PathKind path = PathKind::kSame;  // to each of them
  bool operator==(const Rail&) const = default;
};

// One for each member: the NICs that are nearest to it, those whose place nobody knows where there are no others. Members share a NIC
// evenly; each finds its own rail without knowing of the others.
std::vector<Rail> assignRails(const MachineGraph& graph, std::span<const int32_t> members);

}  // namespace horing
