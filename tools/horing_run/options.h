#pragma once
// The command line of horing-run.
#include <optional>
#include <string>
#include <vector>

#include "horing_run/uplink.h"

namespace horing::run {

constexpr int kMaxRanks = 1024;
constexpr int kMaxNodes = 128;
constexpr int kMaxRails = 8;
constexpr int kMaxRateMbit = 100000;

// What happens to the other ranks when one fails.
enum class OnFailure { kEndAll, kKeepGoing };
enum class BindTo { kNone, kCore };
enum class Output { kAsIs, kTagged };
enum class Action { kRun, kCheckNodes };

// Changes the speed of a node's links this many seconds after the start.
struct RateChange {
  double at_s = 0;
  int node = 0;
  int rate_mbit = 0;
};

struct Options {
  Action action = Action::kRun;
  int ranks = 1;
  // Emulated nodes; 0: all ranks run on this machine as it is.
  int nodes = 0;
  // Ranks of each node; one entry with all ranks if there are no emulated nodes.
  std::vector<int> ranks_of_node;
  // The user did not give the ranks of each node.
  bool spreads_ranks = false;
  // Speed of the links of each node in each direction; 0: unshaped. As many as nodes.
  std::vector<int> rates_mbit;
  // Disjoint.
  std::vector<Uplink> uplinks;
  // In order of time.
  std::vector<RateChange> rate_changes;
  // Links, and so interfaces, of each node.
  int rails = 1;
  // Size of each node's /dev/shm; 0: the kernel's default (half of the memory).
  int shm_mib = 0;
  // The CPUs of ranks: the CPUs of horing-run, or a core each.
  BindTo bind_to = BindTo::kNone;
  // Everything is ended after this many seconds; 0: never.
  double timeout_s = 0;
  // How long ranks have between SIGTERM and SIGKILL.
  double grace_s = 5;
  OnFailure on_failure = OnFailure::kEndAll;
  Output output = Output::kAsIs;
  // Whether to replace libnccl.so.2 by horing's.
  bool nccl = false;
  // Where the byte counters of the nodes' interfaces go as JSON; empty: nowhere.
  std::string report_path;
  std::vector<std::string> command;
};

// Options, or the exit code with which the program should end at once (--help, or a usage error already
// reported).
struct ParseOutcome {
  std::optional<Options> options;
  int exit_code = 0;
};
ParseOutcome parseOptions(int argc, char** argv);

}  // namespace horing::run
