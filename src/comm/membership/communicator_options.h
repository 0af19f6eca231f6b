#pragma once
// The options with which a rank makes its handle of a communicator.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "control/unique_id.h"
#include "sim/machine_model.h"

namespace horing {

class CudaDevice;
class GpuTeam;
class LoopbackHub;
class SegmentList;
namespace verbs {
struct Library;
}

struct CommunicatorOptions {
  Config config;
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  // As in JoinOptions.
  bool root_was_open = false;
  // Set when all ranks are threads of this process: they then communicate through the hub instead of shm or sockets.
  std::shared_ptr<LoopbackHub> hub;
  // PCI address of the GPU that this rank computes on, for the job's map; empty: none, or unknown.
  std::string gpu_bus{};
  // The GPU that was current on the calling thread; for a child, the parent's GPU, if any. Null: none.
  std::shared_ptr<const CudaDevice> gpu{};
  // The GPUs of these ranks. Null: operations on GPUs are staged through host memory.
  std::shared_ptr<GpuTeam> gpus{};
  // The library for RDMA devices; must outlive the communicator. Null: this machine's.
  const verbs::Library* verbs = nullptr;
  // Memory of this process that peers can map; must outlive the communicator. Null: none.
  SegmentList* segments = nullptr;
  // For descriptions and log lines; may be empty.
  std::string name;
  // Whether making this communicator, and communicators from it, blocks.
  bool blocking = true;
  // How many kinds of signals a rank counts separately of each other rank; their index is below.
  int signals = 1;
  // The parent's cost model of the machine, if it has one; the same on all ranks. Nothing: HORING_CALIBRATE decides.
  std::optional<MachineModel> machine;
  // For a child: the rate that its parent follows for the group of this rank, if it follows any.
  std::optional<double> parent_rate{};
  // Made from another communicator: only the first communicator of a job measures if nothing is cached (HORING_CALIBRATE=auto).
  bool is_child = false;
  // For a child with such a rate: whether it follows later changes, too.
  bool follows_rates = false;
  // Set by any thread: the communicator, or its initialisation, then ends with an error. Null: the communicator makes its own flag.
  std::shared_ptr<std::atomic<bool>> aborted{};
  // Receives the rank that caused the error if the communicator cannot be made; unchanged if the error is about no single rank. May be
  // null.
  int* failed_rank = nullptr;
};

}  // namespace horing
