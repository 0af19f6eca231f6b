#pragma once
// From NCCL's environment to horing's settings, without a change of the environment; and the first line of NCCL's logs.
#include <string>
#include <string_view>

#include "base/log.h"
#include "nccl/face.h"

namespace horing::nccl {

// Passes the values of NCCL's variables to horing, and logs once, at info, the effect of each. Errors are returned with a text.
ncclResult_t takeOverEnvironment() noexcept;

// For a text that names horing's variables set by this library: the NCCL variables that they come from; empty: none.
std::string originsOf(std::string_view text);

// Applies settings that the environment determines in place of a config. settings.used may be null before; it is set if the environment has
// any.
struct Settings;
void overrideBy(Settings& settings);

// The log of this process for a communicator's rank on a GPU; -1: of none.
Log logFor(int rank, int gpu);
// On one rank of a job, once in a process: the line with NCCL's version, if NCCL_DEBUG asks for it.
void showBanner(int rank) noexcept;

}  // namespace horing::nccl
