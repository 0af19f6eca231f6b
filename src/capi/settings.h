#pragma once
// The settings of one communicator: horingConfig_t, horingOptions_t; those of one call.
#include "base/status.h"
#include "comm/communicator.h"
#include "horing/horing.h"

namespace horing {

// Overrides the options; null changes nothing. Errors: a struct that was not initialised, a value that is not allowed.
Status applySettings(const horingConfig_t* config, CommunicatorOptions& options);
Status applySettings(const horingOptions_t* given, CommunicatorOptions& options);

// Sets the options that applyThreadOptions() applies; null: none. Writes the previous options to *former, unless null. Errors: as above.
Status setThreadOptions(const horingOptions_t* given, horingOptions_t* former);
Status applyThreadOptions(CommunicatorOptions& options);

// The same for the calls of collectives that this thread makes.
Status setCallOptions(const horingCallOptions_t* given, horingCallOptions_t* former);
Status applyCallOptions(const Communicator& communicator, Call& call);

}  // namespace horing
