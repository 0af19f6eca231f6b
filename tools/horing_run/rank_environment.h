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
  // Where rank 0 listens: for communicators at root (host:port), for PyTorch's rendezvous at master_port.
  std::string host;
  std::string root;
  int master_port = 0;
  // 64 hex digits of 32 random bytes. Only the ranks get to see it.
  std::string secret;
  // Hold the ports on this machine, without listening on them, so that no other program is given them meanwhile;
  // rank 0 can still bind them with SO_REUSEADDR. Invalid on an emulated network, where nobody else is.
  Fd port_holder;
  Fd master_port_holder;
};

// `network` is null when the ranks run on this machine as it is.
Result<Rendezvous> makeRendezvous(const EmulatedNetwork* network);

// This process's environment with the variables of one rank ("NAME=value"); ranks have numbers below
// `world_size`.
std::vector<std::string> rankEnvironment(const Placement& place, int world_size, const Rendezvous& rendezvous,
                                         const EmulatedNetwork* network);

}  // namespace horing::run
