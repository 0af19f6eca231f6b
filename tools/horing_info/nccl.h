#pragma once
// What a program made for NCCL gets: `horing-info nccl`.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::info {

// The variables of NCCL that are set, and what becomes of each; then all that are known.
std::string ncclText();

// Which files named libnccl a process, given by its number, has mapped; or those that a command, and what it starts, loads until it
// ends. A line each. The command's exit code goes nowhere; its output is its own.
Result<std::string> ncclLibrariesOf(const std::vector<std::string>& pid_or_command);

}  // namespace horing::info
