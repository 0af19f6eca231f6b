#pragma once
#include <functional>
#include <span>

#include "comm/membership/host_identity.h"
#include "topology/nvml.h"

namespace horing {

// Whether processes of this rank's node may share a GPU: there are more processes than GPUs. Without MPS their kernels then do not run
// concurrently, and a kernel that waits for the host blocks the others. If GPUs cannot be counted, false.
bool mayShareGpus(
    std::span<const HostIdentity> ranks, int rank,
    const std::function<Result<int>()>& count_gpus = [] { return countGpus(); });

}  // namespace horing
