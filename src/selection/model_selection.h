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
  Question question;  // its algorithm, collective and size are ignored
  std::vector<Collective> collectives;
  // Ascending; a row holds up to the last size at which its algorithm is the fastest.
  std::vector<uint64_t> sizes;
  // This table's choice is kept unless the model predicts that another algorithm is faster by more than the model's error (errorFactor()),
  // or if its choice cannot be predicted. Null: the model alone chooses.
  const SelectionTable* standing = nullptr;
  JobShape job;  // the shape for finding its rows
  // The deadline of a caller who waits for the answer. Null: none.
  const Deadline* until = nullptr;
};

// The shape of a job that fills the machine.
JobShape jobOn(const MachineModel& machine);

// The factor by which two predictions must differ to tell which is faster (bench/sim/README.md). Inside a node the model underestimates
// caches; between nodes, the scheduling of ranks that share cores, until the wire dominates.
inline double errorFactor(const MachineModel& machine, uint64_t bytes) {
  if (machine.nodes == 1) return 2;
  return sharesCores(machine) && bytes < (1 << 20) ? 1.5 : 1.1;
}

// The question of a job with these settings on that machine. Its algorithm, collective and size have no meaning.
Question questionOf(const Config& config, const MachineModel& machine);

// The time of an algorithm, by size; 0: no prediction.
struct PredictedTimes {
  const Algorithm* algorithm;
  std::vector<Picoseconds> times;
};

// Of all algorithms of the collective, in the order of the catalogue, without the algorithms that access buffers of peers. `sizes` ascend.
// Errors: `until` has passed.
Result<std::vector<PredictedTimes>> predictTimes(const Question& question, Collective collective,
                                                 const std::vector<uint64_t>& sizes,
                                                 const Deadline* until = nullptr);
// The fastest at the size of that index, except `chosen`; null: no other has a prediction.
const PredictedTimes* fastestBut(const Algorithm* chosen, const std::vector<PredictedTimes>& predicted,
                                 size_t size);

// The algorithm for sizes up to `bytes`.
struct ModelChoice {
  uint64_t bytes;
  const Algorithm* algorithm;
  Picoseconds time;  // 0: unknown
  // The fastest of the other algorithms; null if there is none.
  const Algorithm* next = nullptr;
  Picoseconds next_time = 0;
};

// Choices by size: the requested sizes, and the sizes at which the standing table changes its choice. Among equally fast algorithms the
// first in the catalogue. Errors: as for selectionText().
Result<std::vector<ModelChoice>> chooseByModel(const SelectionQuestion& asked, Collective collective);

// Rows for machines of this many nodes and ranks, with the predictions as comments. Algorithms that need readable inputs of peers are left
// out. Errors: a collective that no algorithm can run here; `until` has passed.
Result<std::string> selectionText(const SelectionQuestion& question);

// The error for a job that selects by the model without a machine description: by default, messages would cost no CPU time.
Status modelNeedsMachine();

// Values of HORING_CALIBRATE that are not files.
inline constexpr const char* kCalibrateOnce = "auto";  // if nothing is cached for jobs like this one
inline constexpr const char* kCalibrateNever = "0";
inline constexpr const char* kCalibrateAlways = "1";
// Larger jobs do not measure by themselves: rank 0's predictions would take longer than users expect of a start.
inline constexpr int kMostMeasuredRanks = 256;
// Whether HORING_CALIBRATE names a file.
bool readsMachine(const Config& config);

// Whether config.selection uses predictions first: model, or auto if the machine is measured or read for every communicator.
bool selectsByModel(const Config& config);

// The table for HORING_SELECTION=model or auto on a machine: predicted rows for the most common calls, with the settings of `config`,
// followed by the built-in rows. For model the model alone chooses; for auto the built-in table for `job` stands, see
// SelectionQuestion::standing. The machine may come from a file that knows less about shared cores than the job. Takes some 100 ms for 8
// ranks, 3 s for 128 nodes of 8; algorithms that would take too long to simulate are left out. Errors: more than kMostPredictedRanks;
// checkLinksKnown(); `until` has passed, if given; for auto, a measurement that other programs disturbed.
inline constexpr int32_t kMostPredictedRanks = 1024;
Result<std::string> modelTableText(const Config& config, const MachineModel& machine, const JobShape& job,
                                   const Deadline* until = nullptr);

}  // namespace horing
