#pragma once
// horing's options of one call, which NCCL's list of vendors' options carries.
#include "nccl/face.h"

namespace horing::nccl {

struct CallOptions {
  int timeout_ms = NCCL_CONFIG_UNDEF_INT;
  bool reproducible = false;
};
// Other vendors' options are skipped. Refuses those of horing that are unknown, repeated or out of range, and a list without an end.
ncclResult_t readCallOptions(const ncclConfigExt_t* list, CallOptions& options) noexcept;

// Refuses what a call of this communicator cannot have. `folds`: it reduces data.
ncclResult_t checkCallOptions(const CallOptions& options, ncclComm_t comm, bool folds) noexcept;

}  // namespace horing::nccl
