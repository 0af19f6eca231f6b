#pragma once
// The table by which the library chooses algorithms (HORING_SELECTION), written by prediction instead of measurement.
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "selection/prediction.h"
#include "selection/selection_table.h"

namespace horing {

struct SelectionQuestion {
  Question question;  // its algorithm, collective and size are of no meaning
  std::vector<Collective> collectives;
  // Ascending; a row holds up to the last size at which its algorithm is the fastest.
  std::vector<uint64_t> sizes;
  // Its choice stands unless the model says of another that it is faster by more than the model may err (errorFactor()), and
  // where its choice cannot be predicted. Null: the model alone chooses.
  const SelectionTable* standing = nullptr;
  JobShape job;  // by which its rows are found
  // When the answer is of no use any more: somebody waits for it. Null: nobody does.
  const Deadline* until = nullptr;
};

// The shape of a job with a rank wherever the machine has a place for one.
JobShape jobOn(const MachineModel& machine);

// By how much predictions must differ to say which of two is faster (bench/sim/README.md). Inside a node, caches count for more than
// the model knows of; between nodes, turns of ranks that share cores do, until the wire decides.
constexpr double errorFactor(const MachineModel& machine, uint64_t bytes) {
  if (machine.nodes == 1) return 2;
  return sharesCores(machine) && bytes < (1 << 20) ? 1.5 : 1.1;
}

// What serves up to `bytes`.
struct ModelChoice {
  uint64_t bytes;
  const Algorithm* algorithm;
  Picoseconds time;  // 0: it is not known
};

// By size: those that are asked for, and where the standing table changes its mind. Of equally fast ones the first in the catalogue.
// Errors as selectionText().
Result<std::vector<ModelChoice>> chooseByModel(const SelectionQuestion& asked, Collective collective);

// Rows for machines of this many nodes and ranks, with what was predicted as comments. Algorithms that ask for inputs that every
// rank can read are left out. Errors: a collective that no algorithm can run here; `until` has passed.
Result<std::string> selectionText(const SelectionQuestion& question);

// The error of a job that asks for the model and says nothing of the machine: by its defaults messages cost no CPU time.
Status modelNeedsMachine();

// Values of HORING_CALIBRATE that are no files.
inline constexpr const char* kCalibrateOnce = "auto";  // where nothing is kept of jobs like this one
inline constexpr const char* kCalibrateNever = "0";
inline constexpr const char* kCalibrateAlways = "1";
// Whether it names a file.
bool readsMachine(const Config& config);

// Whether config.selection asks for predictions before all else: model, or auto where the machine is measured or read for every
// communicator.
bool selectsByModel(const Config& config);

// What HORING_SELECTION=model or auto means on a machine: such rows for what a communicator does most, with the settings of `config`,
// before those that are built in for all else. For model the model alone chooses; for auto the built-in table stands for `job` as
// SelectionQuestion::standing says. The machine may be described by a file that knows less of shared cores than the job. Takes some
// 100 ms for 8 ranks, 3 s for 128 nodes of 8; algorithms that would take too long to simulate are left out. Errors: more than
// kMostPredictedRanks; checkLinksKnown(); `until` has passed, if given; for auto, what was measured while other programs ran.
inline constexpr int32_t kMostPredictedRanks = 1024;
Result<std::string> modelTableText(const Config& config, const MachineModel& machine, const JobShape& job,
                                   const Deadline* until = nullptr);

}  // namespace horing
