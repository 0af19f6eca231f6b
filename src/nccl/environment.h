#pragma once
// From NCCL's environment to horing's settings, without a change of the environment; and the first lines of NCCL's logs.
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

// Around the initialisation of a communicator by `rank`: logs lines in NCCL's form if NCCL_DEBUG asks for them.
void logBegin(ncclComm_t* place, int rank, int ranks) noexcept;
void logEnd(ncclComm_t* place, int rank, int ranks, ncclResult_t result) noexcept;
// At the end of a group: the same lines for the communicators that it has made, if it succeeded.
void logGroupEnd(ncclResult_t result) noexcept;

}  // namespace horing::nccl
