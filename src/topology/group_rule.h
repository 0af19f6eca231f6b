#pragma once
// Groups by rule (HORING_GROUP_BY), in place of a name for every rank's group:
//   node                       the node
//   slurm:FILE                 the leaf switch of Slurm's topology.conf that lists the rank's host
//   node,slurm:FILE            the node; the file's switches say only which nodes are near each other
//   host:PATTERN               the beginning of the host's name that PATTERN matches, in which * stands for any letters, as
//                              few as possible: rack*- puts rack12-n3 and rack12-n4 into one group
//   nvlink                     the NVLink domain of the rank's GPU, of whatever nodes, by NVML; the node where NVLink ends there
#include <string>
#include <string_view>

#include "base/status.h"
#include "topology/nvml.h"

namespace horing {

struct GroupPlace {
  std::string label;     // equal for ranks of one group; empty: the node
  std::string switches;  // the switches above the host, from the top: "spine/leaf0"; empty: unknown
  bool operator==(const GroupPlace&) const = default;
};
// A rule that does not cover the rank is an error, and fails the whole job, since errors spread during the rendezvous. `gpu`: the PCI
// address of the rank's GPU; empty: none.
Result<GroupPlace> groupByRule(const std::string& rule, const std::string& host, const std::string& gpu = "",
                               const std::string& nvml = kNvmlLibrary);

// `text` is topology.conf as Slurm reads it: SwitchName=s0 Nodes=n[01-16,20],x7, SwitchName=s1 Switches=s[0,2]. Hosts are compared by their
// short names. Returns GroupPlace::switches; the part after the last slash is the leaf. If several switches list a host, or a switch, the
// first counts. A cycle of switches is an error.
Result<std::string> switchesAbove(std::string_view text, std::string_view host);
// Whether a list like "n[01-16,20]e[1-2],x7" contains a host. An invalid list contains none.
bool hostListNames(std::string_view list, std::string_view host);

}  // namespace horing
