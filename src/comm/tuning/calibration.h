#pragma once
// What the machine under a communicator costs, measured by messages between pairs of its ranks and by nothing else: no collective
// is timed, so that a prediction of one is a prediction.
#include "comm/tuning/machine_fit.h"

namespace horing {

class Communicator;

enum class CalibrationEffort {
  kQuick,     // some 100 ms in a node, 200 between two: while a communicator is made
  kThorough,  // some seconds: repeated, with larger messages
};

// Messages after which a link between groups is what it will be: TCP acknowledges the first 16 segments of a connection one by one,
// which takes up to five times as long on emulated nodes.
inline constexpr int kSettlingTimes = 20;

struct Calibration {
  MachineReadings readings;
  MachineModel machine;
};

// Collective; nothing else may run on the communicator, and makes links between all ranks that it pairs. Every rank has rank 0's
// result. One node in the model is one group of the communicator. Errors: the communicator's.
Result<Calibration> calibrate(Communicator& communicator, CalibrationEffort effort);
// Collective: rank 0's machine, or its error, on every rank. What the others give is not looked at.
Result<MachineModel> shareMachine(Communicator& communicator, const Result<MachineModel>& mine);

// Collective: the largest of what the ranks give. Ranks that are early sleep.
Result<double> mostOfAll(Communicator& communicator, double mine);

}  // namespace horing
