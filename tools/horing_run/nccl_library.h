#pragma once
// Programs made for NCCL, on horing.
#include "base/status.h"

namespace horing::run {

// Whatever this process starts from now on gets our libnccl.so.2 where it asks for one (LD_AUDIT). Errors: the library is not beside
// this program's.
Status offerNccl();

}  // namespace horing::run
