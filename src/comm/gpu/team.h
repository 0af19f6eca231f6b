#pragma once
// The ranks of a communicator on their GPUs: whether kernels can serve them, and what their kernels share. The ranks are threads of one
// process that were made together, or met by an ID (comm/gpu/remote_gpus.h) and are as processes to each other, even in one process.
//
// Threads that were made together exchange nothing: the first thread makes an object for all ranks, and one thread's result holds for all.
// Ranks that met by an ID have an object each, and the others are *remote* to it. Queues and plans of a rank are on its GPU
// (comm/gpu/team_memory.h).
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "comm/gpu/kernel_selection.h"
#include "comm/gpu/launches.h"
#include "comm/gpu/plan_room.h"
#include "comm/gpu/remote_gpus.h"
#include "comm/gpu/team_memory.h"
#include "control/replay_number.h"
#include "control/unique_id.h"
#include "cuda/device.h"
#include "engine/cuda/bound_exchange.h"
#include "engine/cuda/bound_plan.h"
#include "topology/group_map.h"

namespace horing {

// Shared by the ranks. Any thread, one at a time for each rank.
class GpuTeam {
 public:
  // The plans of one operation for all ranks, by position, null for remote ranks; empty: kernels cannot serve it.
  using Plans = std::vector<std::unique_ptr<cuda::BoundPlan>>;

  explicit GpuTeam(int ranks) : GpuTeam(ranks, nullptr) {}
  // For one rank; all others are remote and make their own team.
  GpuTeam(int ranks, std::unique_ptr<RemoteGpus> remote)
      : ranks_(static_cast<size_t>(ranks)),
        remote_(std::move(remote)),
        launches_(ranks, remote_.get()),
        memory_(ranks, remote_.get()) {}
  // A team for a communicator of some of the ranks: callers with the same name share it, while one of them holds it.
  std::shared_ptr<GpuTeam> branch(const JobId& name, int ranks);
  // Waits a second for kernels to end, aborts them and waits another second; then leaks their memory.
  ~GpuTeam();
  GpuTeam(const GpuTeam&) = delete;
  GpuTeam& operator=(const GpuTeam&) = delete;

  // Sets the rank's GPU. Does not block.
  void arrive(int rank, std::shared_ptr<const CudaDevice> device);
  // Waits until all ranks have arrived. Returns whether kernels serve them, the same for all. The log tells why not.
  struct Member {
    int rank;
    const Config& config;
    const GroupMap& map;
    const Log& log;
    std::function<Status()> news{};  // the error that ended the communicator or its kernels; any thread
    int64_t timeout_ms = 0;          // for each exchange among remote ranks
  };
  Result<bool> serves(const Member& member, const GpuWaitLimit& limit);

  // Whether all ranks run an all-gather of this size by copies, unless it is recorded into a graph.
  bool copies(uint64_t bytes) const;
  // After serves().
  const Selection& selectionFor(const CallSpec& spec, const Selection& of_hosts) const {
    return selection_.choose(spec, window_bytes_, of_hosts);
  }
  // Makes plans at the first call, without waiting for remote ranks. Null: kernels cannot serve it, on any rank; the log tells why.
  Result<const Plans*> plans(Collective collective, const Selection& selection, int root);
  // Whether it is known if kernels serve the ranks, so that serves() waits for no other rank.
  bool isSettled();

  // Whether the ranks met by an ID.
  bool isRemote() const { return remote_ != nullptr; }
  // Once kernels serve: whether each rank's GPU reaches the memory of all others.
  bool reachesAll() const { return !remote_ || remote_->areAllNeighbors(); }
  // This rank's sends and receives by kernels. Null: kernels serve no messages of this rank, or serves() has not returned true yet. So
  // ranks that made the same calls before get the same answer.
  Result<const cuda::BoundExchange*> exchange(int rank);
  // Whether kernels carry messages with this peer; the same at both ends. True for peers whose memory the GPU reaches. For others proxies
  // carry the messages between kernels: without RDMA (with RDMA hosts are better), or if a graph records them.
  bool carriesMessagesWith(int peer, bool is_recorded) const {
    return carriesAllMessages(is_recorded) || remote_->isNeighbor(peer);
  }
  bool carriesAllMessages(bool is_recorded) const {
    return reachesAll() || (bridged_exchange_parts_ > 0 && (is_recorded || !remote_->areSomeByRdma()));
  }
  // Call before the messages: makes queues to unreachable ranks. Local errors: the driver's; no room in GPU memory.
  Status connectMessages(int rank, std::span<const Transfer> transfers);

  // The launches of ranks that kernels serve.
  GpuLaunches& launches() { return launches_; }

  // Ends all kernels of all ranks.
  void abort();
  // The error of kernels that gave up; ok: none did. `launch`: the number in its LaneCall.
  struct Ended {
    Status status;
    std::optional<uint64_t> launch{};      // nothing: sends and receives, which are not in the ledger
    std::optional<ReplayNumber> replay{};  // if a graph replayed it
    int rank = -1;                         // for messages: the rank of the GPU
    int64_t timeout_ms = 0;                // of the call
  };
  Ended outcome();
  // How often the kernels of this rank have run each part of plans that graphs replay. Any thread.
  std::vector<ReplayRuns> replayRuns(int rank) const;
  // Memory on this rank's GPU.
  uint64_t memoryBytes(int rank);

 private:
  struct Rank {
    std::shared_ptr<const CudaDevice> device;
    bool is_served = false;  // serves() has returned true
  };
  enum class State { kGathering, kKernels, kStaged };
  class Ports;

  using PlanKey = std::array<int, 3>;  // collective, place in the catalogue, root
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool isHere(int rank) const { return !remote_ || rank == remote_->rank(); }
  std::vector<int> missing() const;
  // Until hosts serve, or all ranks of this process have arrived.
  Status awaitArrivals(int rank, const GpuWaitLimit& limit, std::unique_lock<std::mutex>& lock);
  void stage(const Member& member, const Status& why);
  // Under mutex_.
  Status setUp();
  Status setUpMemory(const TeamMemory::Devices& devices);
  void adopt(const GpuTerms& terms);
  Status makeExchanges();
  Result<std::unique_ptr<cuda::BoundExchange>> makeExchange(int rank,
                                                            const cuda::BoundExchangeSettings& settings);
  // The plans of all ranks before they are bound to memory; the same on every rank, as the error is.
  struct Draft {
    std::vector<Schedule> schedules;  // by position
    cuda::BoundPlanSettings settings;
  };
  Result<Draft> draftPlans(Collective collective, const Selection& selection, int root);
  Result<Plans> bindPlans(Draft& draft);
  void tellOf(const Plans& plans) const;
  int32_t blocksPerLane(size_t lanes) const;
  int32_t partsFor(const Selection& selection, const std::vector<Schedule>& schedules);
  std::optional<std::vector<GpuQueueName>> narrowQueues(const std::vector<Schedule>& schedules) const;
  GpuQueueName queueOf(const cuda::PortName& port, int32_t position, int32_t part) const;
  Result<cuda::Port*> portOfMessages(int rank, int peer, bool sends, int32_t part);
  void release();

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kGathering;
  // From the rank that set it up.
  Config config_;
  std::optional<GroupMap> map_;
  Log log_;
  std::vector<Rank> ranks_;             // empty for remote ranks
  std::unique_ptr<RemoteGpus> remote_;  // null: all ranks are in this process
  int most_blocks_ = 0;                 // per rank
  int resident_blocks_ = 0;             // set with `remote_`
  GpuLaunches launches_;
  TeamMemory memory_;
  PinnedMemory flags_;
  std::atomic<uint32_t*> abort_ = nullptr;  // points into flags_; release and acquire: any thread may read it
  cuda::BoundPlanSettings settings_;
  std::vector<int32_t> rank_of_position_;
  KernelSelection selection_;
  size_t window_bytes_ = 0;  // vectors up to this size are best in one lane, see KernelSelection::choose()
  std::map<PlanKey, Plans> plans_;
  PlanRoom room_;               // if the ranks met by an ID
  bool has_exchanges_ = false;  // or tried to make them
  // The most parts of messages that proxies carry between kernels; 0: none.
  int32_t bridged_exchange_parts_ = 0;
  std::vector<std::unique_ptr<cuda::BoundExchange>>
      exchanges_;  // by rank; null for remote ranks; empty: none
  mutable std::mutex
      made_mutex_;  // protects the next member only; mutex_ may be held while ranks wait for each other
  std::map<PlanKey, const Plans*> made_;
  std::map<JobId, std::weak_ptr<GpuTeam>> branches_;
};

}  // namespace horing
