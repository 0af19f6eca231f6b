#pragma once
// `horing-info nccl`: variables and libraries of programs built for NCCL.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::info {

// The NCCL variables that are set, with their effect; then all known variables.
std::string ncclText();

// The files named libnccl that a process, given by its PID, has mapped; or that a command and its children load until it ends. A line each.
// The command's exit code is ignored; its output is not captured.
Result<std::string> ncclLibrariesOf(const std::vector<std::string>& pid_or_command);

}  // namespace horing::info
