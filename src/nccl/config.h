#pragma once
// From a struct of whichever version of NCCL the caller was compiled with to horingConfig_t.
#include "nccl/face.h"

namespace horing::nccl {

// The caller's settings. `used` points to `own`, or is null where the caller gave none. A code other than ncclSuccess comes with
// its text.
struct Settings {
  horingConfig_t own = HORING_CONFIG_INITIALIZER;
  horingConfig_t* used = nullptr;
};
ncclResult_t readConfig(const ncclConfig_t* given, Settings& settings) noexcept;

// What a call may set: checked, and without effect.
ncclResult_t checkCollConfig(const ncclCollConfig_t* given) noexcept;

}  // namespace horing::nccl
