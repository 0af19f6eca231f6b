#pragma once
// What bounds the time of a simulated collective, as a sentence for users.
#include <string>

#include "sim/simulation.h"

namespace horing {

// For a result with records of a simulation of `network`. `bound`: its wire bound, or 0. A resource that is busy for most of the time
// bounds it; otherwise the largest part of the critical path does. Empty: it takes no time. The sentence begins with the kind:
//   links, memory, cores   what is busy: "links between nodes: every node sends at 93 % of its rate"
//   algorithm              its messages take longer than the wire bound, or wait for one another while links are idle
//   latency                messages that wait for one another: how many, and the time of each
//   slots                  senders wait for receivers to free slots
std::string bottleneckText(const SimulationResult& result, const FoldedNetwork& network, Picoseconds bound);

}  // namespace horing
