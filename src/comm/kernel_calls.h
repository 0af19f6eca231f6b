#pragma once
// A rank's operations on its GPU by kernels: from a command to a launch of the team's (comm/gpu_team.h).
#include <memory>

#include "comm/command.h"
#include "comm/communicator.h"
#include "comm/gpu_team.h"
#include "comm/launch_watch.h"

namespace horing {

// Of one communicator. A resource. One thread at a time enters operations, and one alone takes the steps below; abort(), run() and
// outcome(): any.
class KernelCalls {
 public:
  KernelCalls(Communicator& communicator, std::shared_ptr<GpuTeam> team)
      : communicator_(communicator), team_(std::move(team)), watch_(communicator, *team_) {}
  // Null: the host does all that is asked of the communicator's GPUs.
  static std::unique_ptr<KernelCalls> of(Communicator& communicator);

  // From now on the rank works on that GPU.
  void bind(std::shared_ptr<const CudaDevice> device);
  // In three steps, for ranks of one thread and operations that go together: takes the operation, ... False: it is not one for
  // kernels, on no rank. Errors: kInvalidUsage, and then it is not taken; the driver's.
  Result<bool> enqueue(const Command& command, CudaStream stream);
  // The same, after what the default stream was told before: settle() returns when it is complete.
  Result<bool> enqueueBlocking(const Command& command);
  // ... puts what was taken on its streams, ...
  Status start();
  // ... and waits until it is on its way.
  Status settle();
  // All three for one operation, complete on return, whatever another thread has taken. False as above.
  Result<bool> run(const Command& command);

  // What kernels left that gave up; ok: none did.
  Status outcome() { return watch_.outcome(); }
  // Any thread: ends the kernels of all ranks.
  void abort() { team_->abort(); }
  uint64_t memoryBytes() { return team_->memoryBytes(communicator_.rank()); }

 private:
  GpuPatience patience();
  Result<bool> teamServes();
  // Null: kernels cannot serve it.
  Result<const cuda::BoundPlan*> planFor(const Command& command, uint64_t launch);
  Result<bool> enter(const Command& command, CudaStream stream);
  // The stream that it is complete on; null: it is not one for kernels.
  Result<CudaStream> enterBlocking(const Command& command);
  Status judged(const Status& launched);
  // What this rank has entered: puts it on its streams, and waits until it is on its way.
  Status launch();
  Status complete(CudaStream stream);

  Communicator& communicator_;
  const std::shared_ptr<GpuTeam> team_;
  LaunchWatch watch_;
  std::shared_ptr<const CudaDevice> device_;
  SteadyClock clock_;
  bool enqueued_ = false;         // something that settle() must wait for
  CudaStream awaited_ = nullptr;  // that settle() must wait for
};

}  // namespace horing
