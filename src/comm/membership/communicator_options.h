#pragma once
// What a rank says when it makes its end of a communicator.
#include <atomic>
#include <memory>
#include <optional>
#include <string>

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
  // Set when all ranks live in this process: they then talk through it instead of shm or sockets.
  std::shared_ptr<LoopbackHub> hub;
  // PCI address of the GPU that this rank computes on, for the job's map; empty: none, or nobody knows.
  std::string gpu_bus{};
  // The GPU that was current on the thread that asked for it; of a child, the one that its parent works on, if any. Null: there is none.
  std::shared_ptr<const CudaDevice> gpu{};
  // The GPUs of these ranks. Null: operations on GPUs go through memory of the host.
  std::shared_ptr<GpuTeam> gpus{};
  // Of the adapters; must outlive the communicator. Null: that of this machine.
  const verbs::Library* verbs = nullptr;
  // Memory of this process that others can map; must outlive the communicator. Null: there is none.
  SegmentList* segments = nullptr;
  // For descriptions and log lines; may be empty.
  std::string name;
  // Whether those who make it, and communicators out of it, wait until that is done.
  bool blocking = true;
  // What the machine costs, if a communicator that this one comes of knows; the same on all ranks. Nothing: HORING_CALIBRATE says.
  std::optional<MachineModel> machine;
  // Comes of another communicator: only the first of a job is measured where nothing is kept (HORING_CALIBRATE=auto).
  bool is_child = false;
  // Set from any thread: the communicator, or the making of it, ends with an error. Null: it has one of its own.
  std::shared_ptr<std::atomic<bool>> aborted{};
  // Where to put the rank that the error is about when the communicator cannot be made; untouched if it is about no one rank.
  // Null: nowhere.
  int* failed_rank = nullptr;
};

}  // namespace horing
