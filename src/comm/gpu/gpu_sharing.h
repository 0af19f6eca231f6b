#pragma once
#include <functional>
#include <span>

#include "comm/membership/host_identity.h"
#include "topology/nvml.h"

namespace horing {

// Whether processes of this rank's node may have a GPU in common: there are more of them than GPUs. Without MPS their kernels do not run at
// once then, and one that waits for the host takes the others' time. Where GPUs cannot be counted each process has its own, as far as one
// can tell.
bool mayShareGpus(
    std::span<const HostIdentity> ranks, int rank,
    const std::function<Result<int>()>& count_gpus = [] { return countGpus(); });

}  // namespace horing
