#pragma once
// The settings of one call.
#include "nccl/face.h"

namespace horing::nccl {

// Refuses settings that are not allowed, and those that ask for what one call cannot have. The others change nothing.
ncclResult_t checkCallSettings(const ncclCollConfig_t* given) noexcept;

}  // namespace horing::nccl
