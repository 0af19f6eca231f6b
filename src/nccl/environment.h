#pragma once
// From NCCL's environment to horing's settings, without a change of the environment; and the lines that NCCL's logs begin with.
#include <string>
#include <string_view>

#include "base/log.h"
#include "nccl/face.h"

namespace horing::nccl {

// Tells horing what NCCL's variables say now, and says once, at info, what has become of each. A code other than ncclSuccess comes
// with its text.
ncclResult_t takeOverEnvironment() noexcept;

// For a text that names variables of horing which nobody set: what of NCCL's they come of; empty: it names none.
std::string originsOf(std::string_view text);

// What the environment decides in place of a config: settings.used may be null before, but not after where it decides something.
struct Settings;
void overrideBy(Settings& settings);

// Around the making of a communicator by `rank`: lines in NCCL's form, where NCCL_DEBUG asks for them.
void logBegin(ncclComm_t* place, int rank, int ranks) noexcept;
void logEnd(ncclComm_t* place, int rank, int ranks, ncclResult_t result) noexcept;
// The end of a group: those lines of what its calls make then, if it succeeded.
void logGroupEnd(ncclResult_t result) noexcept;

}  // namespace horing::nccl
