#pragma once
// What the user asked of horing-run.
#include <optional>
#include <string>
#include <vector>

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

struct Options {
  Action action = Action::kRun;
  int ranks = 1;
  // Emulated nodes; 0: all ranks run on this machine as it is.
  int nodes = 0;
  // Speed of each link in each direction; 0: unshaped.
  int rate_mbit = 0;
  // Links, and so interfaces, of each node.
  int rails = 1;
  // Size of each node's /dev/shm; 0: the kernel's default (half of the memory).
  int shm_mib = 0;
  // Where ranks may run: where horing-run may, or each on a core.
  BindTo bind_to = BindTo::kNone;
  // Everything is ended after this many seconds; 0: never.
  double timeout_s = 0;
  // How long ranks have between SIGTERM and SIGKILL.
  double grace_s = 5;
  OnFailure on_failure = OnFailure::kEndAll;
  Output output = Output::kAsIs;
  // Whether whoever asks for libnccl.so.2 gets this project's.
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
