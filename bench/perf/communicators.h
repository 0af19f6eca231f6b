#pragma once
// The communicator that a *_perf program measures: this process's ranks of it, one per thread.
#include <vector>

#include "base/status.h"
#include "horing/horing.h"
#include "perf/options.h"

namespace horing::perf {

// Whether horing-run, mpirun, srun or torchrun started this process as one of several.
bool startedByLauncher();

// One end for each of options.ranks() threads, which must then drive it; the caller ends each of them. Ranks
// are the launcher's processes times the threads, or the threads alone. Errors: the library's.
Result<std::vector<horingComm_t>> openCommunicators(const Options& options);

}  // namespace horing::perf
