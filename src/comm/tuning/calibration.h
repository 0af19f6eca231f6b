#pragma once
// Measures the costs of the machine under a communicator, only with messages between pairs of its ranks. No collective is timed, so that
// the predicted time of a collective is not fitted to its measured time.
#include "comm/tuning/machine_fit.h"

namespace horing {

class Communicator;

enum class CalibrationEffort {
  kQuick,     // some 100 ms in a node, 200 ms between two; used while a communicator is made
  kThorough,  // some seconds; repeats the measurements and uses larger messages
};

// After so many messages a link between groups has its lasting speed: TCP acknowledges the first 16 segments of a connection one by one,
// which takes up to five times as long on emulated nodes.
inline constexpr int kSettlingTimes = 20;

struct Calibration {
  MachineReadings readings;
  MachineModel machine;
};

// Collective; nothing else may run on the communicator. It makes links between all ranks that it pairs. Every rank gets rank 0's result. A
// node of the model is a group of the communicator. Errors: the communicator's.
Result<Calibration> calibrate(Communicator& communicator, CalibrationEffort effort);
// Collective: returns rank 0's machine, or its error, on every rank. The arguments of other ranks are ignored.
Result<MachineModel> shareMachine(Communicator& communicator, const Result<MachineModel>& mine);

// Collective: returns the arguments of all ranks, by rank.
Result<std::vector<double>> numbersOfAll(Communicator& communicator, double mine);
// Collective: returns the largest of the ranks' arguments. Ranks that arrive early sleep.
Result<double> mostOfAll(Communicator& communicator, double mine);

}  // namespace horing
