#pragma once
// Groups by rule (HORING_GROUP_BY), for those who do not want to name the group of every rank:
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
  std::string label;     // what ranks of one group have in common; empty: their node
  std::string switches;  // that the host is under, from the top: "spine/leaf0"; empty: nobody said
  bool operator==(const GroupPlace&) const = default;
};
// A rule that does not cover the rank is an error that says so, and then of the whole job: ranks hear of each other's errors while they meet.
// `gpu`: the PCI address of the one that the rank computes on; empty: none.
Result<GroupPlace> groupByRule(const std::string& rule, const std::string& host, const std::string& gpu = "",
                               const std::string& nvml = kNvmlLibrary);

// `text` is topology.conf as Slurm reads it: SwitchName=s0 Nodes=n[01-16,20],x7, SwitchName=s1 Switches=s[0,2]. Hosts are compared by
// their short names. As GroupPlace::switches; the part after the last slash is the leaf. Of several switches that list one host, or one
// switch, the first counts. A switch that is above itself is an error.
Result<std::string> switchesAbove(std::string_view text, std::string_view host);
// Whether a list like "n[01-16,20]e[1-2],x7" names a host. A list that cannot be read names none.
bool hostListNames(std::string_view list, std::string_view host);

}  // namespace horing
