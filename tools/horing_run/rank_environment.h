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
  // The addresses of rank 0: root (host:port) for communicators, master_port for PyTorch's rendezvous.
  std::string host;
  std::string root;
  int master_port = 0;
  // 64 hex digits of 32 random bytes, visible to the ranks only.
  std::string secret;
  // Reserve the ports on this machine, without listening, so that no other program gets them meanwhile; rank 0 can still bind them with
  // SO_REUSEADDR. Invalid on an emulated network, where there are no other programs.
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
