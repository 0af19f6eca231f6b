#pragma once
// Copies between the GPUs of a node, and between each GPU and pinned memory of the host, by the CUDA driver.
#include <chrono>
#include <vector>

#include "base/status.h"
#include "horing_check/inside_paths.h"
#include "topology/machine_graph.h"

namespace horing::check {

// Adds those of all GPUs that CUDA shows this process, one after the other, and compares all bytes. Nothing without a driver. Takes some
// milliseconds for each pair, and up to a second for each GPU's context; ends by `latest` with what it has. Memory for 32 MiB on each GPU.
// Errors: the driver's, after the paths that were measured before.
Status addGpuPaths(const MachineGraph& graph, std::chrono::steady_clock::time_point latest,
                   std::vector<InsidePath>& paths);

}  // namespace horing::check
