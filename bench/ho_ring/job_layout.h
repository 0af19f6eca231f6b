#pragma once
// The place of each rank in the measured job, and the neighbouring node of each node.
#include <string>
#include <vector>

#include "base/status.h"
#include "ho_ring/bounds.h"
#include "ho_ring/duplex_stream.h"
#include "perf/ranks.h"

namespace horing::bench {

struct JobLayout {
  JobShape shape;
  int node = 0;              // this rank's, in the order in which nodes first appear among the ranks
  bool is_leader = false;    // the lowest rank of its node
  std::vector<int> leaders;  // by node
  bool even = true;          // every node has the same number of ranks
};

// The node: from horing-run, else the host name. Collective.
Result<JobLayout> findLayout(perf::Ranks& ranks);

// Streams from each node's leader to the next node's, one for each interface; none on other ranks, and none with one node.
// Collective; at most 30 s.
Result<std::vector<DuplexStream>> connectNeighbours(perf::Ranks& ranks, const JobLayout& layout,
                                                    const std::vector<std::string>& interfaces);

}  // namespace horing::bench
