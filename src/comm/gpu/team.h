#pragma once
// The ranks of a communicator, each on a GPU: what their kernels share, and whether kernels can serve them at all. The ranks are
// threads of one process, or each is one of its own (comm/gpu/remote_gpus.h).
//
// Between threads nothing is exchanged: whoever comes first makes it for all ranks, and what one finds out holds for all. Queues
// and plans of a rank lie on its GPU (comm/gpu/team_memory.h).
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
#include "comm/gpu/remote_gpus.h"
#include "comm/gpu/team_memory.h"
#include "control/replay_number.h"
#include "control/unique_id.h"
#include "cuda/device.h"
#include "engine/cuda/bound_exchange.h"
#include "engine/cuda/bound_plan.h"
#include "topology/group_map.h"

namespace horing {

// Shared by the ranks. Any thread, but one at a time for each rank.
class GpuTeam {
 public:
  // The plans of one operation of all ranks, by position, null for those of other processes; none: kernels cannot serve it.
  using Plans = std::vector<std::unique_ptr<cuda::BoundPlan>>;

  explicit GpuTeam(int ranks) : GpuTeam(ranks, nullptr) {}
  // All but one rank are of other processes, which must make a team alike.
  GpuTeam(int ranks, std::unique_ptr<RemoteGpus> remote)
      : ranks_(static_cast<size_t>(ranks)),
        remote_(std::move(remote)),
        launches_(ranks, remote_.get()),
        memory_(ranks, remote_.get()) {}
  // A team of some of the ranks, for a communicator of theirs: the same for all that ask with the same name, while one of them
  // holds it.
  std::shared_ptr<GpuTeam> branch(const JobId& name, int ranks);
  // Waits a second for kernels to end, and another when told to; then leaves their memory where it is.
  ~GpuTeam();
  GpuTeam(const GpuTeam&) = delete;
  GpuTeam& operator=(const GpuTeam&) = delete;

  // The rank works on that GPU. Does not wait.
  void arrive(int rank, std::shared_ptr<const CudaDevice> device);
  // Waits until all ranks have arrived; then whether kernels serve them, the same for all. The log tells why not.
  struct Member {
    int rank;
    const Config& config;
    const GroupMap& map;
    const Log& log;
    std::function<Status()> news{};  // what has ended the communicator, or its kernels; any thread
    int64_t timeout_ms = 0;          // for each question of ranks of other processes to each other
  };
  Result<bool> serves(const Member& member, const GpuPatience& patience);

  // Whether an all-gather of so many bytes from each rank is to be copied, by all ranks, unless it is recorded into a graph.
  bool copies(uint64_t bytes) const;
  // After serves().
  const Selection& selectionFor(const CallSpec& spec, const Selection& of_hosts) const {
    return selection_.choose(spec, window_bytes_, of_hosts);
  }
  // Made when first asked for. Null: kernels cannot serve it, and the log tells why.
  Result<const Plans*> plans(Collective collective, const Selection& selection, int root);

  // Of ranks of other processes.
  bool isRemote() const { return remote_ != nullptr; }
  // This rank's sends and receives by kernels. Null: kernels serve none of this rank's; or serves() has not told it yet that they serve
  // collectives. So ranks that made the same ones before are told alike.
  Result<const cuda::BoundExchange*> exchange(int rank);
  // With which ranks, if it has one, and whether with all, on every rank: the same at both ends. Those whose memory its GPU reaches, and
  // the others too, whose messages hosts carry between kernels: without RDMA, by which hosts do it better, or where a graph records them.
  bool carriesMessagesWith(int peer, bool is_recorded) const {
    return carriesAllMessages(is_recorded) || remote_->isNeighbor(peer);
  }
  bool carriesAllMessages(bool is_recorded) const {
    return !remote_ || remote_->areAllNeighbors() ||
           (bridged_exchange_parts_ > 0 && (is_recorded || !remote_->areSomeByRdma()));
  }
  // Before these: queues to ranks whose memory is not reached. Errors, of this rank alone: the driver's; its GPU's memory
  // has no room for them.
  Status connectMessages(int rank, std::span<const Transfer> transfers);

  // For ranks that kernels serve.
  GpuLaunches& launches() { return launches_; }

  // Ends all kernels of all ranks.
  void abort();
  // What kernels that gave up left; ok: none did. `launch`: its number, as its LaneCall has it.
  struct Ended {
    Status status;
    std::optional<uint64_t> launch{};      // none: sends and receives, which are no call of the ledger
    std::optional<ReplayNumber> replay{};  // where a graph replayed it
    int rank = -1;                         // of messages: on whose GPU
  };
  Ended outcome();
  // How often the kernels of this rank have run what graphs replay, as they tell, of every part of a plan that has run. Any thread.
  std::vector<ReplayRuns> replayRuns(int rank) const;
  // On this rank's GPU.
  uint64_t memoryBytes(int rank);

 private:
  struct Rank {
    std::shared_ptr<const CudaDevice> device;
    bool is_served = false;  // serves() has told it so
  };
  enum class State { kGathering, kKernels, kStaged };
  class Ports;

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool isHere(int rank) const { return !remote_ || rank == remote_->rank(); }
  std::vector<int> missing() const;
  void stage(const Member& member, const Status& why);
  // Under mutex_.
  Status setUp();
  Status setUpMemory(const TeamMemory::Devices& devices);
  void adopt(const GpuTerms& terms);
  Status makeExchanges();
  Result<std::unique_ptr<cuda::BoundExchange>> makeExchange(int rank,
                                                            const cuda::BoundExchangeSettings& settings);
  Result<Plans> makePlans(Collective collective, const Selection& selection, int root);
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
  // Of whoever set it up.
  Config config_;
  std::optional<GroupMap> map_;
  Log log_;
  std::vector<Rank> ranks_;             // those of other processes are empty
  std::unique_ptr<RemoteGpus> remote_;  // null: all are of this one
  int most_blocks_ = 0;                 // of a rank's kernel
  int resident_blocks_ = 0;             // where there is `remote_`
  GpuLaunches launches_;
  TeamMemory memory_;
  PinnedMemory flags_;
  std::atomic<uint32_t*> abort_ = nullptr;  // in flags_; release and acquire, for any thread may ask
  cuda::BoundPlanSettings settings_;
  std::vector<int32_t> rank_of_position_;
  KernelSelection selection_;
  size_t window_bytes_ = 0;  // of a vector up to which one lane is best, see KernelSelection::choose()
  using PlanKey = std::array<int, 3>;  // collective, place in the catalogue, root
  std::map<PlanKey, Plans> plans_;
  bool has_exchanges_ = false;  // or tried to have
  // Of messages that hosts carry between kernels, the most; 0: none are.
  int32_t bridged_exchange_parts_ = 0;
  std::vector<std::unique_ptr<cuda::BoundExchange>>
      exchanges_;  // by rank; null for those of other processes; empty: there are none
  mutable std::mutex
      made_mutex_;  // of the next alone, for mutex_ may be held while ranks wait for each other
  std::map<PlanKey, const Plans*> made_;
  std::map<JobId, std::weak_ptr<GpuTeam>> branches_;
};

}  // namespace horing
