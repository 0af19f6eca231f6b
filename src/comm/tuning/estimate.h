#pragma once
// How long a command would take, by simulation.
#include "comm/calls/command.h"
#include "comm/communicator.h"

namespace horing {

// Microseconds on the machine that the communicator has measured or read (HORING_CALIBRATE), else on the one that horing-sim assumes, with
// this communicator's groups. Local: no rank is asked. Errors: what cannot be simulated.
Result<double> estimateUs(const Communicator& communicator, const Command& command);

}  // namespace horing
