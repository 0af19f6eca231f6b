#pragma once
// Estimates by simulation how long a command would take.
#include "comm/calls/command.h"
#include "comm/communicator.h"

namespace horing {

// Microseconds on the machine that the communicator has measured or read (HORING_CALIBRATE), otherwise on the machine that horing-sim
// assumes, with this communicator's groups. Local: sends no message. Errors: the command cannot be simulated.
Result<double> estimateUs(const Communicator& communicator, const Command& command);

}  // namespace horing
