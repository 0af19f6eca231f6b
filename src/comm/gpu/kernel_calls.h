#pragma once
// A rank's operations on its GPU by kernels: from a command to a launch of the team's (comm/gpu/team.h).
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/calls/command.h"
#include "comm/communicator.h"
#include "comm/gpu/launch_watch.h"
#include "comm/gpu/team.h"

namespace horing {

// Of one communicator. A resource. One thread at a time enters operations, and one alone takes the steps below; abort(), run() and
// outcome(): any.
class KernelCalls {
 public:
  KernelCalls(Communicator& communicator, std::shared_ptr<GpuTeam> team)
      : communicator_(communicator), team_(std::move(team)), watch_(communicator, *team_) {}
  // Null: the host does all that is asked of the communicator's GPUs.
  static std::unique_ptr<KernelCalls> of(Communicator& communicator);
  // Then, when there are operations on GPUs: one rank's log tells why, if nobody chose it.
  static void warnOfNone(const Communicator& communicator);

  // Collective, once, before anything else: where each rank told of its GPU when they met, all agree now on whether kernels serve them, so
  // that no operation waits on the host for the first one of other ranks, and that kernels carry sends and receives, which are calls of too
  // few to agree in, from the first on. Errors: the control plane's; the driver's.
  Status agreeAtOnce();
  // The GPU that kernels of this rank have; nothing: they have none so far.
  std::optional<int> gpu() const { return device_ ? std::optional(device_->number()) : std::nullopt; }
  // From now on the rank works on that GPU.
  void bind(std::shared_ptr<const CudaDevice> device);
  // In three steps, for ranks of one thread and operations that go together: takes out of the command what is for kernels, ... False:
  // the rest is not, nor on other ranks. Errors: kInvalidUsage, and then nothing is taken; the driver's. Several streams, which differ:
  // for sends and receives.
  Result<bool> enqueue(Command& command, std::span<const CudaStream> streams);
  // The same, after what the default stream was told before: settle() returns when it is complete.
  Result<bool> enqueueBlocking(Command& command);
  // ... puts what was taken on its streams, ...
  Status start();
  // ... and waits until it is on its way.
  Status settle();
  // What comes from here on on the streams of messages of which a rest was for hosts is behind those that were taken. Once the rest is
  // there, since neither waits for the other.
  Status follow();
  // For one operation, whatever another thread has taken: puts on its way what is for kernels. False as above.
  Result<bool> begin(Command& command);
  // That is complete on return.
  Status finish();

  // What kernels left that gave up; ok: none did.
  Status outcome() { return watch_.outcome(); }
  // Any thread: ends the kernels of all ranks.
  void abort() { team_->abort(); }
  uint64_t memoryBytes() { return team_->memoryBytes(membership_.rank()); }

 private:
  int64_t timeoutMs() const { return communicator_.timeoutMs(); }
  GpuPatience patience(int64_t timeout_ms);
  Result<bool> teamServes() { return teamServes(timeoutMs()); }
  Result<bool> teamServes(int64_t timeout_ms);
  // Null: kernels cannot serve it.
  Result<const cuda::BoundPlan*> planFor(const Call& call, uint64_t launch);
  Result<Taken> enter(Command& command, std::span<const CudaStream> streams);
  Result<Taken> enterCollective(Command& command, CudaStream stream);
  Result<Taken> enterMessages(Command& command, std::span<const CudaStream> streams);
  Result<Taken> enterAsMessages(const Call& call, CudaStream stream);
  Result<uint64_t> recordedGraph(std::span<const CudaStream> streams) const;
  Result<GpuLaunch> makeLaunch(const Call& call, CudaStream stream, uint64_t graph);
  Result<bool> prepare(const Call& call, GpuLaunch& launch);
  Result<GpuExchange> makeMessages(const cuda::BoundExchange* exchange, std::span<const Transfer> transfers,
                                   bool is_recorded) const;
  Status enter(const GpuLaunch& launch);
  Result<bool> carriesMessages(const Command& command);
  Result<CudaStream> enterBlocking(Command& command);
  Status judged(const Status& launched);
  // What this rank has entered: puts it on its streams, and waits until it is on its way.
  Status launch();
  Status complete(CudaStream stream);

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  const std::shared_ptr<GpuTeam> team_;
  LaunchWatch watch_;
  std::shared_ptr<const CudaDevice> device_;
  SteadyClock clock_;
  bool has_served_collective_ = false;
  bool enqueued_ = false;              // something that settle() must wait for
  CudaStream awaited_ = nullptr;       // that settle() must wait for
  std::vector<CudaStream> followers_;  // that follow() must tell
  CudaStream begun_ = nullptr;         // that finish() must wait for
};

}  // namespace horing
