#pragma once
// A rank's operations by kernels on its GPU: from a command to a launch of the team (comm/gpu/team.h).
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/calls/command.h"
#include "comm/communicator.h"
#include "comm/gpu/launch_watch.h"
#include "comm/gpu/team.h"

namespace horing {

// For one communicator. A resource. One thread at a time enters operations, and one takes the steps below; abort(), run() and outcome():
// any thread.
class KernelCalls {
 public:
  KernelCalls(Communicator& communicator, std::shared_ptr<GpuTeam> team)
      : communicator_(communicator), team_(std::move(team)), watch_(communicator, *team_) {}
  // Collective: whether kernels serve all ranks, with this GPU here, and each rank's GPU reaches the memory of all others. Where they do not
  // serve, nothing is bound. Errors: the control plane's; the driver's.
  Result<bool> reachAll(const std::shared_ptr<const CudaDevice>& device);
  // Null: hosts serve all operations on the communicator's GPUs.
  static std::unique_ptr<KernelCalls> of(Communicator& communicator);
  // If of() gave null and there are operations on GPUs: one rank logs the reason, unless the user chose it.
  static void warnOfNone(const Communicator& communicator);

  // Collective, once, before any other call: if each rank named its GPU in its introduction, all ranks agree now on whether kernels serve
  // them. Then no operation waits on the host for the first operation of other ranks, and kernels carry sends and receives, in which all
  // ranks cannot agree, from the first one on. Errors: the control plane's; the driver's.
  Status agreeAtOnce();
  // The GPU of this rank's kernels; nothing: none so far.
  std::optional<int> gpu() const { return device_ ? std::optional(device_->number()) : std::nullopt; }
  // Sets the rank's GPU.
  void bind(std::shared_ptr<const CudaDevice> device);
  // Before enqueue(), for several communicators of one thread whose ranks met by an ID: if mustMeet(), agrees with all ranks on whether
  // kernels serve them, so that enqueue() does not wait for them. Errors: the control plane's; the driver's.
  bool mustMeet(const Command& command);
  Status meet();
  // Three steps, for several ranks driven by one thread and for grouped operations. enqueue() takes the part for kernels out of the
  // command. False: a rest is left for hosts, on all ranks. Errors: kInvalidUsage (then nothing is taken); the driver's. Several distinct
  // streams: only for sends and receives.
  Result<bool> enqueue(Command& command, std::span<const CudaStream> streams);
  // The same, ordered after earlier work on the default stream: settle() returns when the part is complete.
  Result<bool> enqueueBlocking(Command& command);
  // Puts the taken part on its streams.
  Status start();
  // Waits until the taken part is launched.
  Status settle();
  // Orders later work on these streams after the messages that kernels took, for messages of which hosts carry a rest. Called after the
  // rest was enqueued, since kernels and hosts must not wait for each other.
  Status follow();
  // For one operation, independent of what another thread has taken: launches the part for kernels. False: as for enqueue().
  Result<bool> begin(Command& command);
  // Waits for begin()'s part to complete.
  Status finish();

  // The error of kernels that gave up; ok: none did.
  Status outcome() { return watch_.outcome(); }
  // Any thread: ends the kernels of all ranks.
  void abort() { team_->abort(); }
  uint64_t memoryBytes() { return team_->memoryBytes(membership_.rank()); }

 private:
  int64_t timeoutMs() const { return communicator_.timeoutMs(); }
  uint64_t timeoutNs() const { return static_cast<uint64_t>(timeoutMs()) * 1'000'000; }
  GpuWaitLimit waitLimit(int64_t timeout_ms);
  Result<bool> teamServes() { return teamServes(timeoutMs()); }
  Result<bool> teamServes(int64_t timeout_ms);
  // The algorithm of the kernels.
  const Selection& selectionFor(const Call& call, const Selector& selector) const;
  // Null: kernels cannot serve the call.
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
  // Puts what this rank has entered on its streams, and waits until it is launched. `awaited`: the stream of calls that are complete on
  // return; null: there are none.
  Status launch(CudaStream awaited);
  Status complete(CudaStream stream);
  void giveUp(CudaStream stream);

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  const std::shared_ptr<GpuTeam> team_;
  LaunchWatch watch_;
  std::shared_ptr<const CudaDevice> device_;
  SteadyClock clock_;
  bool has_served_collective_ = false;
  bool enqueued_ = false;              // settle() has something to wait for
  CudaStream awaited_ = nullptr;       // the stream that settle() waits for
  std::vector<CudaStream> followers_;  // the streams for follow()
  CudaStream begun_ = nullptr;         // the stream that finish() waits for
};

}  // namespace horing
