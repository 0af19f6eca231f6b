#pragma once
// Runs programs built for NCCL on horing.
#include "base/status.h"

namespace horing::run {

// Programs that this process starts from now on load horing's libnccl.so.2 in place of any other (LD_AUDIT). Errors: the library is not
// found beside this program.
Status offerNccl();

}  // namespace horing::run
