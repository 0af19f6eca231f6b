#pragma once
// A rank's operations on its GPU by kernels: from a command to a launch of the team's (comm/gpu_team.h).
#include <memory>
#include <optional>

#include "comm/command.h"
#include "comm/communicator.h"
#include "comm/gpu_team.h"
#include "comm/launch_watch.h"

namespace horing {

// Of one communicator. A resource; one thread at a time, but for abort().
class KernelCalls {
 public:
  KernelCalls(Communicator& communicator, std::shared_ptr<GpuTeam> team)
      : communicator_(communicator), team_(std::move(team)), watch_(communicator, *team_) {}

  // From now on the rank works on that GPU.
  void bind(std::shared_ptr<const CudaDevice> device);
  // Puts the operation on the stream; settle() must follow. False: it is not one for kernels, on no rank. Errors: kInvalidUsage, and
  // then nothing was put there; the driver's.
  Result<bool> enqueue(const Command& command, CudaStream stream);
  // Until what was enqueued is on its way.
  Status settle();
  // After what the default stream was told before: complete on return. False as above.
  Result<bool> run(const Command& command);

  // What kernels left that gave up; ok: none did.
  Status outcome() { return watch_.outcome(); }
  // Any thread: ends the kernels of all ranks.
  void abort() { team_->abort(); }
  uint64_t memoryBytes() { return team_->memoryBytes(communicator_.rank()); }

 private:
  GpuPatience patience();
  Result<bool> teamServes();

  Communicator& communicator_;
  const std::shared_ptr<GpuTeam> team_;
  LaunchWatch watch_;
  std::shared_ptr<const CudaDevice> device_;
  SteadyClock clock_;
  std::optional<uint64_t> enqueued_;  // launch that settle() must wait for
};

}  // namespace horing
