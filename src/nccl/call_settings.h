#pragma once
// The settings of one call.
#include "nccl/call_options.h"

namespace horing::nccl {

// Reads the algorithm and horing's own options. Refuses settings that are not allowed, and those that ask for what one call cannot have. The others change
// nothing.
ncclResult_t readCallSettings(const ncclCollConfig_t* given, CallOptions& options) noexcept;

}  // namespace horing::nccl
