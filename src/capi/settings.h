#pragma once
// What a caller may set for one communicator: horingConfig_t, horingOptions_t.
#include "base/status.h"
#include "comm/communicator.h"
#include "horing/horing.h"

namespace horing {

// Each overrides what the options have; null changes nothing. Errors: a struct that was not initialised, a value not allowed.
Status applySettings(const horingConfig_t* config, CommunicatorOptions& options);
Status applySettings(const horingOptions_t* given, CommunicatorOptions& options);

// From now on applyThreadOptions() is as to apply these; null: nothing. `former`, unless null, gets what counted before. Errors: as above.
Status setThreadOptions(const horingOptions_t* given, horingOptions_t* former);
Status applyThreadOptions(CommunicatorOptions& options);

}  // namespace horing
