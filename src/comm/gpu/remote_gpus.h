#pragma once
// The ranks of other processes, as a rank's GPU sees them (comm/gpu/team.h): whether kernels can serve all of them, decided alike
// by all through the control plane, and the queues to them: in the memory of the GPUs of one node, where processes open each other's
// (comm/gpu/neighbors.h), and else in that of the host, which carries them on.
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/gpu/bridged_queues.h"
#include "comm/gpu/neighbors.h"
#include "comm/gpu/offer.h"
#include "comm/gpu/proxies.h"
#include "comm/gpu/queue_sizes.h"
#include "comm/gpu/spare_queues.h"
#include "cuda/device.h"
#include "engine/cuda/bound_plan.h"
#include "engine/cuda/memory.h"

namespace horing {

// That hosts carry all, although nobody chose it, as one may choose to share a GPU. For one rank to tell.
void warnOfHosts(const Log& log, const Status& why);

// Of one rank. A resource; one thread at a time. The communicator must outlive it.
class RemoteGpus {
 public:
  // Null: some ranks are threads of one process that met by ID, which may share GPUs: the host serves those.
  static std::unique_ptr<RemoteGpus> of(Communicator& communicator);
  // The same on every rank.
  static Status whyNot(const Communicator& communicator);
  ~RemoteGpus() = default;
  RemoteGpus(const RemoteGpus&) = delete;
  RemoteGpus& operator=(const RemoteGpus&) = delete;

  int rank() const { return membership_.rank(); }

  struct Own {
    std::shared_ptr<const CudaDevice> device;
    Status made{};                   // not ok: kernels cannot serve this rank
    cuda::Memory* memory = nullptr;  // of its GPU, nothing of which is given yet; must outlive this
    int resident_blocks = 0;
    uint32_t* abort = nullptr;       // see GpuProxyOptions, as
    std::function<Status()> news{};  // this
    int64_t timeout_ms = 0;          // for each of the questions that all ask each other
  };
  struct Verdict {
    Status why_not;  // ok: kernels serve all ranks
    GpuTerms terms{};
  };
  // Collective, once: the same verdict on all ranks. Errors: the control plane's.
  Result<Verdict> agree(const Own& own);
  // Collective: whether every rank has made a plan for `key`; if not, what was asked of here since the last time is taken back.
  // Errors: the control plane's; kInvalidUsage: a rank is at another one.
  Result<bool> allMade(const std::array<int, 3>& key, bool made);

  // After a good verdict, the same on all ranks: of queues, those that hosts carry with more slots, and the parts of any plan.
  const cuda::QueueShape& shape() const { return sizes_.shape; }
  int32_t parts() const { return parts_; }
  // For more, up to so many parts: none where some ranks of a node are no neighbors. In the memory of any of these.
  SpareQueues spareQueues() const;
  int32_t mostParts() const { return all_neighbors_ ? cuda::kMaxParts : sizes_.mostBridgedParts(); }
  std::byte* spare(int rank) const { return neighbors_.spare(rank); }
  // Whose memory kernels reach, and whose kernels reach this rank's; and whether all ranks are so to each other, the same on each.
  bool isNeighbor(int peer) const { return neighbors_.reaches(peer); }
  size_t neighbors() const { return neighbors_.count(); }
  // Of any rank, if all of its node are such; the same on every rank.
  size_t mostNeighbors() const { return neighbors_.seats().mostNeighbors(); }
  bool areAllNeighbors() const { return all_neighbors_; }
  // Whether hosts may move messages between some ranks' GPUs without a copy (RDMA), the same on each.
  bool areSomeByRdma() const { return some_by_rdma_; }
  // The kernel's end of a queue to another rank, for a plan that all ranks make, or for messages; `lane.end` is not used. Of what the host
  // carries: when allMade() or connect() has said so.
  using QueueUse = BridgedQueues::Use;
  Result<cuda::Port> port(GpuProxy::Lane lane, QueueUse use);
  // Messages to ranks that are no neighbors have so many parts at most; 0: kernels cannot send them, or there are no such ranks. The
  // same on every rank.
  int32_t bridgedMessageParts() const;
  // From now on the host carries what goes through the queues that were asked for of late, or not. The other ends may come later.
  void connect(bool carries);
  // Where blocks of one more plan tell that they run.
  Result<cuda::Activity*> activity(size_t blocks);
  // The same of messages, for good and at once.
  Result<cuda::Activity*> activityOfMessages(size_t blocks);
  void launched(GpuProxy::Launch launch, uint64_t blocks) { proxies_->launched(launch, blocks); }
  // Besides, of a kernel of messages that no graph replays.
  void launchedMessages(std::vector<int> peers) { proxies_->launchedMessages(std::move(peers)); }
  uint64_t memoryBytes() const;
  // No kernel runs any more: waits until peers have what they have sent. False: other processes still have the memory of this rank's
  // GPU open, which must never be freed.
  bool leave();
  // Stops what the host does for kernels, which may still run: their memory is never freed.
  void leak();

 private:
  explicit RemoteGpus(Communicator& communicator);
  using Blobs = std::vector<std::vector<std::byte>>;
  Result<Blobs> gather(std::span<const std::byte> mine, const Own& own) const;
  Result<GpuOffer> setUp(const Own& own);
  Status makeProxies(const Own& own);
  Status openNeighbors(const std::vector<GpuOffer>& offers, const Own& own);
  std::vector<std::byte> reach(const std::vector<GpuOffer>& offers);
  Status meet(Blobs told, const Own& own);
  Status start(const TransportReach& reach, const Own& own);
  // Transports that may keep some, of those by which messages go to ranks that are no neighbors.
  std::set<size_t> keepersOfMemory() const;
  Result<cuda::Activity*> takeActivity(size_t blocks);

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  GpuNeighbors neighbors_;
  std::shared_ptr<const CudaDevice> device_;
  const GpuQueueSizes sizes_;
  int32_t parts_ = 1;
  bool all_neighbors_ = true;
  bool all_of_nodes_neighbors_ = true;  // all ranks of each
  bool some_by_rdma_ = false;
  bool all_started_ = true;                // the proxies and pinned memory of each rank
  size_t most_strangers_ = 0;              // that are no neighbors of a rank
  std::unique_ptr<cuda::Memory> told_;     // pinned memory of the host
  size_t kept_told_bytes_ = 0;             // which plans have that all ranks have made
  std::unique_ptr<BridgedQueues> queues_;  // null: there is no need of them
  std::vector<int> transport_of_rank_;     // of the proxies
  const int proxy_count_;                  // the same on every rank
  std::unique_ptr<GpuProxies> proxies_;    // go before the memory
  // Of the plan at hand.
  std::vector<GpuProxy::Lane> lanes_;
  std::vector<std::span<const cuda::Activity>> activities_;
  Status started_;
};

}  // namespace horing
