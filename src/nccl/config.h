#pragma once
// Converts the config struct of any NCCL version to horingConfig_t.
#include "nccl/face.h"

namespace horing::nccl {

// The caller's settings. `used` points to `own`, or is null if the caller passed none. Errors are returned with a text.
struct Settings {
  horingConfig_t own = HORING_CONFIG_INITIALIZER;
  horingConfig_t* used = nullptr;
};
ncclResult_t readConfig(const ncclConfig_t* given, Settings& settings) noexcept;

// The rule for minCTAs and maxCTAs.
ncclResult_t checkBlocks(int least, int most) noexcept;

}  // namespace horing::nccl
