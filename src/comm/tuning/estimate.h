#pragma once
// Estimates by simulation how long a command would take.
#include <string>

#include "comm/calls/command.h"
#include "comm/communicator.h"

namespace horing {

struct Estimate {
  double us = 0;
  std::string bottleneck;  // as bottleneckText() (sim/bottleneck.h) has it; only where it is asked for
};

// The time on the machine that the communicator has measured or read (HORING_CALIBRATE), otherwise on the machine that horing-sim assumes,
// with this communicator's groups. `explains`: with what bounds it, which takes memory for each message of the simulation. Local: sends no
// message. Errors: the command cannot be simulated.
Result<Estimate> estimate(const Communicator& communicator, const Command& command, bool explains);

}  // namespace horing
