#pragma once
// Starting one rank.
#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "horing_run/core_binding.h"
#include "horing_run/guard.h"
#include "horing_run/isolated_node.h"

namespace horing::run {

struct SpawnSpec {
  std::vector<std::string> command;
  // The whole environment, "NAME=value".
  std::vector<std::string> environment;
  // Where to run; null: on this machine as it is.
  const IsolatedNode* node = nullptr;
  // The CPUs of the rank; empty: the CPUs of this process.
  Cpus cpus;
  // Ends the rank's process group when horing-run is killed; not needed on a node, whose end kills all its processes.
  const Guard* guard = nullptr;
  // Descriptors that become the rank's standard input, output and error.
  int input = 0;
  int output = 1;
  int error = 2;
  // The signal mask of the rank.
  sigset_t signal_mask{};
};

// Starts the command as a child of this process, in a process group of its own whose number is
// its pid. The rank gets SIGKILL when this process ends. Returns once the command has been executed, or with
// the reason why not.
Result<pid_t> spawn(const SpawnSpec& spec);

}  // namespace horing::run
