#pragma once
#include "comm/communicator.h"

namespace horing {

// Whether processes of this rank's node may have a GPU in common: there are more of them than GPUs. Without MPS their kernels do not run at
// once then, and one that waits for the host takes the others' time. Where NVML does not count the GPUs each process has its own, as far as
// one can tell.
bool mayShareGpus(const Communicator& communicator);

}  // namespace horing
