#pragma once
// The table by which the library chooses algorithms (HORING_SELECTION), written by prediction instead of measurement.
#include <string>
#include <vector>

#include "base/config.h"
#include "comm/prediction.h"

namespace horing {

struct SelectionQuestion {
  Question question;  // its algorithm, collective and size are of no meaning
  std::vector<Collective> collectives;
  std::vector<uint64_t>
      sizes;  // ascending; a row holds up to the last size at which its algorithm is the fastest
};

// Rows for machines of this many nodes and ranks, with what was predicted as comments. Algorithms that ask for inputs that every
// rank can read are left out. Errors: a collective that no algorithm can run here.
Result<std::string> selectionText(const SelectionQuestion& question);

// The error of a job that asks for the model and says nothing of the machine: by its defaults messages cost no CPU time.
Status modelNeedsMachine();

// What HORING_SELECTION=model means on a machine: such rows for what a communicator does most, with the settings of `config`, before
// those that are built in for all else. Takes some 100 ms for 8 ranks; algorithms that would take too long to simulate are
// left out. Errors: more than kMostPredictedRanks.
inline constexpr int32_t kMostPredictedRanks = 1024;
Result<std::string> modelTableText(const Config& config, const MachineModel& machine);

}  // namespace horing
