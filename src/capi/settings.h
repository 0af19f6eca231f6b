#pragma once
// What a caller may set for one communicator: horingConfig_t.
#include "base/status.h"
#include "comm/communicator.h"
#include "horing/horing.h"

namespace horing {

// Overrides what the options have; null changes nothing. Errors: a config that was not initialised, a value not allowed.
Status applySettings(const horingConfig_t* config, CommunicatorOptions& options);

}  // namespace horing
