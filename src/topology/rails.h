#pragma once
// The NICs through which a rank sends to other machines: for the choice of transports, and for display.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "topology/machine_graph.h"

namespace horing {

// The distance of each NIC from this node of the graph, by name: smaller is nearer, and transports use all of the nearest NICs at once.
// From a GPU, the distance is the number of bridges between, for NICs that it reaches without the host. A NIC with less than half the speed
// of the fastest (a maintenance port) is further than all others. From the machine (an unbound rank) all other NICs are equally near.
// Without NICs of unknown place (a bond, a bridge), unless the place of the rank, or of all NICs, is unknown.
std::map<std::string, int> nicDistances(const MachineGraph& graph, int32_t home);

struct Rail {
  std::vector<int32_t> nics;        // nodes, in tree order; empty: the machine has none
  double gbytes_per_s = 0;          // of all NICs together while all members send; 0: unknown
  PathKind path = PathKind::kSame;  // to each NIC

  // What limits the rail's speed, and the NICs that would be chosen next: empty if there are none or their place is unknown.
  enum class Bound : uint8_t {
    kUnknown,
    kAdapters,
    kWay,
    kMember
  };  // lines, shared; the way to them; the member's own link
  Bound bound = Bound::kUnknown;
  bool is_assumed = false;  // whether the speed comes from an assumed rate, between NUMA nodes or packages
  int32_t sharers = 0;      // members that use these NICs, including this one
  std::vector<int32_t> next;
  PathKind next_path = PathKind::kSame;
  bool operator==(const Rail&) const = default;
};

// One rail for each member: its nearest NICs; NICs of unknown place only if there are no others. Members share a NIC evenly; each member
// can compute its rail alone.
std::vector<Rail> assignRails(const MachineGraph& graph, std::span<const int32_t> members);

}  // namespace horing
