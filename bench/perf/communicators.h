#pragma once
// The communicator that a *_perf program measures: this process's ranks of it, one per thread.
#include <vector>

#include "base/status.h"
#include "horing/horing.h"
#include "perf/options.h"
#include "perf/ranks.h"

namespace horing::perf {

// Whether horing-run, mpirun, srun or torchrun started this process as one of several.
bool startedByLauncher();

// One end for each of options.ranks() threads, which must then drive it; the caller ends each of them. Ranks are the launcher's
// processes times the threads, or the threads alone. Errors: the library's.
Result<std::vector<horingComm_t>> openCommunicators(const Options& options);

// A communicator of the same ranks on which calls are only simulated: its machine is measured now, unless HORING_CALIBRATE forbids
// it. It selects by that, as the communicator under test may not. Collective; belongs to the caller.
Result<horingComm_t> openSimulated(Ranks& ranks);

}  // namespace horing::perf
