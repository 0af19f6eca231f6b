#pragma once
// The variables by which ranks find each other.
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "horing_run/emulated_network.h"
#include "horing_run/placement.h"

namespace horing::run {

// The same for all ranks of a run.
struct Rendezvous {
  // host:port where rank 0 listens.
  std::string root;
  // 64 hex digits of 32 random bytes. Only the ranks get to see it.
  std::string secret;
  // Holds the port on this machine, without listening on it, so that no other program is given it meanwhile;
  // rank 0 can still bind it with SO_REUSEADDR. Invalid on an emulated network, where nobody else is.
  Fd port_holder;
};

// `network` is null when the ranks run on this machine as it is.
Result<Rendezvous> makeRendezvous(const EmulatedNetwork* network);

// This process's environment with the variables of one rank ("NAME=value"); ranks have numbers below
// `world_size`.
std::vector<std::string> rankEnvironment(const Placement& place, int world_size, const Rendezvous& rendezvous,
                                         const EmulatedNetwork* network);

}  // namespace horing::run
