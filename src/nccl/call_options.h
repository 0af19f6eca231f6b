#pragma once
// horing's options of one call, which NCCL's list of vendors' options carries.
#include "nccl/face.h"

namespace horing::nccl {

struct CallOptions {
  int timeout_ms = NCCL_CONFIG_UNDEF_INT;
  bool reproducible = false;
  const char* algorithm = nullptr;  // of the caller; null: none
};
// Other vendors' options are skipped. Refuses those of horing that are unknown, repeated or out of range, and a list without an end.
ncclResult_t readCallOptions(const ncclConfigExt_t* list, CallOptions& options) noexcept;

// Refuses what a call of this communicator cannot have. `folds`: it reduces data.
ncclResult_t checkCallOptions(const CallOptions& options, ncclComm_t comm, bool folds) noexcept;

// While it lives, the calls of this thread have these options (horingSetCallOptions).
class WithOptions {
 public:
  explicit WithOptions(const CallOptions& options) noexcept;
  ~WithOptions();
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;
  // Refused: the options do not hold.
  ncclResult_t status() const { return status_; }

 private:
  const bool has_any_;
  ncclResult_t status_ = ncclSuccess;
  horingCallOptions_t former_ = HORING_CALL_OPTIONS_INITIALIZER;
};

}  // namespace horing::nccl
