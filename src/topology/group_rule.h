#pragma once
// Groups by rule (HORING_GROUP_BY), for those who do not want to name the group of every rank:
//   node                       the node
//   slurm:FILE                 the leaf switch of Slurm's topology.conf that lists the rank's host
//   host:PATTERN               the beginning of the host's name that PATTERN matches, in which * stands for any letters, as
//                              few as possible: rack*- puts rack12-n3 and rack12-n4 into one group
#include <string>
#include <string_view>

#include "base/status.h"

namespace horing {

// What ranks of one group have in common; empty: their node. A rule that does not cover the host is an error that says so.
Result<std::string> groupByRule(const std::string& rule, const std::string& host);

// `text` is topology.conf as Slurm reads it: SwitchName=s0 Nodes=n[01-16,20],x7. Hosts are compared by their short names.
Result<std::string> leafSwitchOf(std::string_view text, std::string_view host);
// Whether a list like "n[01-16,20]e[1-2],x7" names a host. A list that cannot be read names none.
bool hostListNames(std::string_view list, std::string_view host);

}  // namespace horing
