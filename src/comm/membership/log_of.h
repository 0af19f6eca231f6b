#pragma once
// The log of a rank: its lines name the rank or, in NCCL's form, the GPU.
#include "base/log.h"
#include "comm/membership/communicator_options.h"

namespace horing {

Log logOf(const CommunicatorOptions& options);

}  // namespace horing
