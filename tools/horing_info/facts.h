#pragma once
// The facts that horing-info shows, as values; print.h prints them.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/links/link_shape.h"
#include "topology/machine.h"

namespace horing::info {

struct Variable {
  std::string name;
  std::string kind;      // Text, Choice, Int, Flag
  std::string allowed;   // "" for any text
  std::string fallback;  // "": see the help text
  std::string help;
  std::string value;  // in effect
  bool is_set = false;
  bool is_shared = false;  // must be the same on all ranks of a communicator
};

// The result of using a transport between ranks that are threads of this process.
struct TransportTrial {
  std::string name;
  Status status;                // ok: usable here
  uint64_t bytes_per_rank = 0;  // memory of a communicator over it, after one collective of each kind
};

struct Facts {
  int header_version = 0;
  int library_version = 0;
  uint32_t protocol_version = 0;
  Status configuration;                        // of the whole environment
  std::vector<std::string> unknown_variables;  // a sentence each
  std::vector<Variable> variables;
  Status machine_status;
  Machine machine;
  std::vector<std::string> rdma_ports;  // "mlx5_0 port 1: InfiniBand, 200 Gb/sec (4X HDR), state 4: ACTIVE"
  int trial_ranks = 0;
  std::vector<TransportTrial> transports;  // none when the configuration is wrong
  std::vector<NodeShmBytes> node_shm;  // for several numbers of ranks; none when the configuration is wrong
  uint64_t gpu_bytes_per_rank = 0;     // GPU memory if kernels serve a communicator
};

// Reads the process environment.
std::vector<Variable> readVariables();

// Makes a communicator of `ranks` ranks over each transport in turn and uses it; changes HORING_TRANSPORTS and shortens
// HORING_INIT_TIMEOUT_MS for this process meanwhile, so no other thread may run.
std::vector<TransportTrial> tryTransports(int ranks);

// A line for each port, as the kernel describes it in this folder; empty if it does not exist.
std::vector<std::string> readRdmaPorts(const std::string& folder);

Facts gatherFacts(int trial_ranks);

std::string factsText(const Facts& facts);
std::string factsJson(const Facts& facts);

}  // namespace horing::info
